// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace wireup::acm {

/// Linux capabilities as a set of bits, by their numbers (capabilities(7)).
using Capabilities = std::uint64_t;

[[nodiscard]] constexpr Capabilities capability(unsigned number) noexcept {
  return Capabilities{1} << number;
}
/// "CAP_NET_RAW, CAP_NET_ADMIN"; "none" for an empty set. Numbers without a name here are written
/// "capability N".
[[nodiscard]] std::string capability_names(Capabilities set);

/// What this thread may do now, and may make others that it starts do.
[[nodiscard]] Result<Capabilities> effective_capabilities();

/// Gives up, for good, every capability of this thread but those of `wanted`: they go from its
/// permitted and effective sets. Programs that it starts get none: its inheritable, ambient and
/// bounding sets become empty (the last where it may do that), and no_new_privs is set. Returns
/// what is left, which is less than `wanted` where this thread had less. Call it before other
/// threads are started: each has sets of its own.
[[nodiscard]] Result<Capabilities> keep_capabilities(Capabilities wanted);

/// A user and the group to run as.
struct UserIds {
  std::string name;
  uid_t user = 0;
  gid_t group = 0;
};
/// Errc::NotFound: there is no such user.
[[nodiscard]] Result<UserIds> find_user(const std::string& name);

/// Becomes this user, with the user's groups, keeping the capabilities of `kept` and no others.
/// Needs CAP_SETUID and CAP_SETGID, unless this process is that user already. All threads become
/// it, but only this one keeps capabilities.
[[nodiscard]] Result<> become_user(const UserIds& ids, Capabilities kept);

/// Raises the limit of pinned memory as far as it goes. True: nothing bounds it any more.
[[nodiscard]] bool raise_memory_limit() noexcept;

}  // namespace wireup::acm
