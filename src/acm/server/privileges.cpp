// SPDX-License-Identifier: BSD-3-Clause
#include "acm/server/privileges.hpp"

#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>
#include <vector>

namespace wireup::acm {
namespace {

/// The kernel's sets, each as two halves of 32 bits.
using KernelSets = std::array<__user_cap_data_struct, 2>;

__user_cap_header_struct header() noexcept {
  return {_LINUX_CAPABILITY_VERSION_3, 0};
}

Result<KernelSets> read_sets() {
  auto head = header();
  KernelSets sets{};
  if (syscall(SYS_capget, &head, sets.data()) != 0) {
    return fail(Error::system(Errc::NoPermission, errno, "reading this process's capabilities"));
  }
  return sets;
}

Capabilities joined(std::uint32_t low, std::uint32_t high) noexcept {
  return Capabilities{high} << 32U | low;
}

/// Permitted and effective become `kept`, inheritable nothing.
Result<> write_sets(Capabilities kept) {
  auto head = header();
  KernelSets sets{};
  sets[0].permitted = sets[0].effective = static_cast<std::uint32_t>(kept);
  sets[1].permitted = sets[1].effective = static_cast<std::uint32_t>(kept >> 32U);
  if (syscall(SYS_capset, &head, sets.data()) != 0) {
    return fail(Error::system(Errc::NoPermission, errno, "giving up capabilities"));
  }
  return {};
}

/// Nothing can be got back from a program's file. Without CAP_SETPCAP the set cannot be changed;
/// then no_new_privs alone sees to it.
void empty_bounding_set() noexcept {
  for (unsigned number = 0; number < 64; ++number) {
    const int is_there = prctl(PR_CAPBSET_READ, number, 0, 0, 0);
    if (is_there < 0) {
      return;
    }
    if (is_there == 1) {
      static_cast<void>(prctl(PR_CAPBSET_DROP, number, 0, 0, 0));
    }
  }
}

}  // namespace

std::string capability_names(Capabilities set) {
  static constexpr std::array<std::pair<unsigned, const char*>, 6> kNames{{
      {CAP_SETGID, "CAP_SETGID"},
      {CAP_SETUID, "CAP_SETUID"},
      {CAP_NET_ADMIN, "CAP_NET_ADMIN"},
      {CAP_NET_RAW, "CAP_NET_RAW"},
      {CAP_IPC_LOCK, "CAP_IPC_LOCK"},
      {CAP_SYS_ADMIN, "CAP_SYS_ADMIN"},
  }};
  std::string text;
  for (unsigned number = 0; number < 64; ++number) {
    if ((set & capability(number)) == 0) {
      continue;
    }
    std::string name = "capability " + std::to_string(number);
    for (const auto& [known, its_name] : kNames) {
      if (known == number) {
        name = its_name;
      }
    }
    text += (text.empty() ? "" : ", ") + name;
  }
  return text.empty() ? "none" : text;
}

Result<Capabilities> effective_capabilities() {
  const auto sets = read_sets();
  if (!sets) {
    return fail(sets.error());
  }
  return joined((*sets)[0].effective, (*sets)[1].effective);
}

Result<Capabilities> keep_capabilities(Capabilities wanted) {
  const auto sets = read_sets();
  if (!sets) {
    return fail(sets.error());
  }
  const Capabilities kept = joined((*sets)[0].permitted, (*sets)[1].permitted) & wanted;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return fail(Error::system(Errc::Unsupported, errno, "forbidding new privileges"));
  }
  // Kernels before 4.3 have no ambient set to clear.
  static_cast<void>(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0));
  // Before CAP_SETPCAP, which it needs, goes with the others.
  empty_bounding_set();
  if (auto written = write_sets(kept); !written) {
    return fail(written.error());
  }
  return kept;
}

Result<UserIds> find_user(const std::string& name) {
  std::vector<char> text(16384);
  passwd entry{};
  passwd* found = nullptr;
  const int error = getpwnam_r(name.c_str(), &entry, text.data(), text.size(), &found);
  if (found == nullptr) {
    return fail(error == 0 ? Error::make(Errc::NotFound, "there is no user %s", name.c_str())
                           : Error::system(Errc::NoResources, error, "looking for the user %s",
                                           name.c_str()));
  }
  return UserIds{name, entry.pw_uid, entry.pw_gid};
}

Result<> become_user(const UserIds& ids, Capabilities kept) {
  if (geteuid() == ids.user && getuid() == ids.user) {
    return write_sets(kept);
  }
  // Else the change of user takes the permitted set along.
  const bool is_done = prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0 &&
                       initgroups(ids.name.c_str(), ids.group) == 0 &&
                       setresgid(ids.group, ids.group, ids.group) == 0 &&
                       setresuid(ids.user, ids.user, ids.user) == 0;
  const int error = errno;
  static_cast<void>(prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0));
  if (!is_done) {
    return fail(Error::system(Errc::NoPermission, error, "becoming user %s (uid %u)",
                              ids.name.c_str(), ids.user));
  }
  return write_sets(kept);
}

bool raise_memory_limit() noexcept {
  rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
  if (setrlimit(RLIMIT_MEMLOCK, &limit) == 0) {
    return true;
  }
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    static_cast<void>(setrlimit(RLIMIT_MEMLOCK, &limit));
  }
  return limit.rlim_cur == RLIM_INFINITY;
}

}  // namespace wireup::acm
