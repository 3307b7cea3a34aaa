// SPDX-License-Identifier: BSD-3-Clause
#include "serve_privileges.hpp"

#include <linux/capability.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

namespace wireup::tool {
namespace {

using acm::capability;

constexpr acm::Capabilities kBecomeUser = capability(CAP_SETUID) | capability(CAP_SETGID);

}  // namespace

Result<ServePrivileges> ServePrivileges::make(const std::string& user) {
  ServePrivileges privileges;
  if (user.empty()) {
    return privileges;
  }
  auto ids = acm::find_user(user);
  if (!ids) {
    return fail(ids.error());
  }
  const auto held = acm::effective_capabilities();
  if (!held) {
    return fail(held.error());
  }
  if (ids->user != geteuid() && (*held & kBecomeUser) != kBecomeUser) {
    return fail(Error::make(Errc::NoPermission,
                            "becoming user %s (--user) needs %s: start the service as root, or as "
                            "that user",
                            user.c_str(), acm::capability_names(kBecomeUser).c_str()));
  }
  privileges.user_ = std::move(*ids);
  return privileges;
}

Result<> ServePrivileges::give_up(bool answers_kernel) {
  // The limit needs CAP_SYS_RESOURCE, and the bound does not hold for CAP_IPC_LOCK.
  const bool is_unbounded = acm::raise_memory_limit();
  struct Need {
    unsigned number;
    bool is_needed;
    const char* why;
  };
  const Need needs[] = {
      {CAP_NET_RAW, true,
       "a port's queue pair has ACM's privileged Q_Key, and is made again later"},
      {CAP_NET_ADMIN, answers_kernel, "the kernel takes answers to its path requests only with it"},
      {CAP_IPC_LOCK, !is_unbounded, "pinned memory is limited (LimitMEMLOCK=infinity ends that)"},
  };
  acm::Capabilities lasting = 0;
  for (const Need& need : needs) {
    lasting |= need.is_needed ? capability(need.number) : 0;
  }
  const auto kept = acm::keep_capabilities(lasting | (is_waiting() ? kBecomeUser : 0));
  if (!kept) {
    return fail(kept.error());
  }
  lasting_ = *kept & lasting;
  spdlog::info("privileges kept: {}; the others are given up for good",
               acm::capability_names(lasting_));
  for (const Need& need : needs) {
    if (!need.is_needed) {
      continue;
    }
    const bool has_it = (lasting_ & capability(need.number)) != 0;
    spdlog::info("{} {}: {}", has_it ? "kept" : "started without",
                 acm::capability_names(capability(need.number)), need.why);
  }
  return {};
}

Result<> ServePrivileges::become_user() {
  const std::string name = user_->name;
  if (auto done = acm::become_user(*user_, lasting_); !done) {
    return done;
  }
  user_.reset();
  spdlog::info("running as user {} with {} now", name, acm::capability_names(lasting_));
  return {};
}

}  // namespace wireup::tool
