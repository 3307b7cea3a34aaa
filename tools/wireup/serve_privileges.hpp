// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>

#include "acm/server/privileges.hpp"
#include "base/result.hpp"

namespace wireup::tool {

/// What `wireup serve` may do, in two steps: at once it gives up what it never needs, and when all
/// its ports are open it becomes another user, if it was asked to.
class ServePrivileges {
 public:
  /// `user` empty: it stays who it is. Errc::NotFound: there is no such user. Errc::NoPermission:
  /// this process may not become it.
  [[nodiscard]] static Result<ServePrivileges> make(const std::string& user);

  /// Gives up, for good, what the service does not need, and says in the log what it kept and why.
  /// After the clients' socket and the kernel's are open, before any device is.
  /// `answers_kernel`: the kernel's path requests are served.
  [[nodiscard]] Result<> give_up(bool answers_kernel);
  /// Has it still to become another user?
  [[nodiscard]] bool is_waiting() const noexcept { return user_.has_value(); }
  /// Becomes it. The files for ranks are root's by then, and ranks believe no others.
  [[nodiscard]] Result<> become_user();

 private:
  std::optional<acm::UserIds> user_;
  acm::Capabilities lasting_ = 0;
};

}  // namespace wireup::tool
