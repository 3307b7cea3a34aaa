// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace wireup::acm {

/// Where ibacm's clients look for their service: ib_acme at the socket, librdmacm at the link.
inline constexpr const char* kClientSocketPath = "/run/ibacm-unix.sock";
inline constexpr const char* kClientSocketLink = "/run/ibacm.sock";
/// For everybody.
inline constexpr mode_t kClientSocketMode = 0666;

/// A listening unix stream socket with its names in the file system, which it takes away again
/// when they still are its own. Move-only.
class ClientListener {
 public:
  /// A socket that somebody else (systemd) made and has named: no name is touched.
  /// Errc::InvalidArgument when it is no listening unix stream socket.
  [[nodiscard]] static Result<ClientListener> adopt(UniqueFd socket);

  ClientListener(ClientListener&& other) noexcept = default;
  ClientListener& operator=(ClientListener&& other) noexcept;
  ~ClientListener() { remove_names(); }

  [[nodiscard]] int fd() const noexcept { return socket_.value(); }
  /// Where it listens; empty when that has no name.
  [[nodiscard]] std::string path() const;

 private:
  friend Result<ClientListener> listen_client_socket(const std::string& path, mode_t mode,
                                                     const std::vector<std::string>& links);
  /// A name that is ours as long as it leads to this inode.
  struct Name {
    std::string path;
    dev_t device = 0;
    ino_t inode = 0;
  };

  explicit ClientListener(UniqueFd socket) noexcept : socket_(std::move(socket)) {}
  /// The name of what has just been made at `path`.
  [[nodiscard]] Result<> own(const std::string& path);
  void remove_names() noexcept;

  UniqueFd socket_;
  std::vector<Name> names_;
};

/// Listens at `path` with the access rights `mode`, and makes `links` symbolic links to it.
/// What a dead service left at these names is replaced. Errc::Busy: a service answers at one of
/// them, or another process is starting there. Errc::InvalidArgument: the path is too long, or
/// something stands there that no service made. Errc::NoPermission as the system says. Leaves the
/// file `path`.lock behind: two that start at once must not take each other's socket for dead.
[[nodiscard]] Result<ClientListener> listen_client_socket(const std::string& path, mode_t mode,
                                                          const std::vector<std::string>& links);

/// Raises the soft limit of open descriptors of this process to the hard one; every client needs
/// one. Returns the limit that holds then.
[[nodiscard]] Result<std::size_t> raise_descriptor_limit();

}  // namespace wireup::acm
