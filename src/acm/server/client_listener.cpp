// SPDX-License-Identifier: BSD-3-Clause
#include "acm/server/client_listener.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

namespace wireup::acm {
namespace {

/// A node's ranks may all connect at once; the kernel cuts this to net.core.somaxconn.
constexpr int kBacklog = 4096;

Result<sockaddr_un> address_of(const std::string& path) noexcept {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return fail(Error::make(Errc::InvalidArgument,
                            "socket path of %zu bytes: 1 to %zu are possible, choose a shorter one",
                            path.size(), sizeof(address.sun_path) - 1));
  }
  std::copy(path.begin(), path.end(), std::begin(address.sun_path));
  return address;
}

const sockaddr* generic(const sockaddr_un& address) noexcept {
  return static_cast<const sockaddr*>(static_cast<const void*>(&address));
}

Result<UniqueFd> make_socket() noexcept {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.is_open()) {
    return fail(Error::system(Errc::NoResources, errno, "making a unix socket"));
  }
  return fd;
}

/// Fails with Errc::Busy when anybody listens at `path`, directly or through a link.
Result<> check_nobody_listens(const std::string& path) noexcept {
  const auto address = address_of(path);
  if (!address) {
    return fail(address.error());
  }
  auto probe = make_socket();
  if (!probe) {
    return fail(probe.error());
  }
  if (connect(probe->value(), generic(*address), sizeof(*address)) == 0 || errno == EAGAIN ||
      errno == EPROTOTYPE) {
    return fail(Error::make(Errc::Busy,
                            "a running service answers at %s: stop it (is it ibacm?), or let this "
                            "one listen elsewhere",
                            path.c_str()));
  }
  // Nobody, or nothing that leads anywhere.
  if (errno == ECONNREFUSED || errno == ENOENT || errno == ELOOP || errno == ENOTDIR) {
    return {};
  }
  return fail(Error::system(Errc::NoPermission, errno, "asking whether a service answers at %s",
                            path.c_str()));
}

/// Takes away what a dead service left at `path`, of the file type `type`.
Result<> clear(const std::string& path, mode_t type) noexcept {
  struct stat found {};
  if (lstat(path.c_str(), &found) != 0) {
    return errno == ENOENT
               ? Result<>()
               : fail(Error::system(Errc::NoPermission, errno, "looking at %s", path.c_str()));
  }
  const mode_t is = found.st_mode & S_IFMT;
  if (is != type && is != S_IFSOCK) {
    return fail(Error::make(Errc::InvalidArgument,
                            "%s exists and is not what a service leaves there: move it away",
                            path.c_str()));
  }
  if (auto free = check_nobody_listens(path); !free) {
    return free;
  }
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    return fail(
        Error::system(Errc::NoPermission, errno, "removing the dead service's %s", path.c_str()));
  }
  return {};
}

/// Held while the names are looked at and made.
Result<UniqueFd> lock_names(const std::string& path) noexcept {
  const std::string name = path + ".lock";
  UniqueFd fd(open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.is_open()) {
    return fail(Error::system(Errc::NoPermission, errno, "opening %s", name.c_str()));
  }
  if (flock(fd.value(), LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    return fail(Error::system(error == EWOULDBLOCK ? Errc::Busy : Errc::NoResources, error,
                              "locking %s: another process is starting its service there",
                              name.c_str()));
  }
  return fd;
}

/// The target of a link beside `path` is the mere file name, as ibacm makes it.
std::string target_of(const std::string& link, const std::string& path) {
  const auto folder = path.rfind('/') + 1;
  return link.substr(0, link.rfind('/') + 1) == path.substr(0, folder) ? path.substr(folder) : path;
}

int socket_option(int fd, int option) noexcept {
  int value = -1;
  socklen_t size = sizeof(value);
  return getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

}  // namespace

Result<ClientListener> ClientListener::adopt(UniqueFd socket) {
  const int fd = socket.value();
  if (socket_option(fd, SO_DOMAIN) != AF_UNIX || socket_option(fd, SO_TYPE) != SOCK_STREAM ||
      socket_option(fd, SO_ACCEPTCONN) != 1) {
    return fail(Error::make(Errc::InvalidArgument,
                            "descriptor %d that was passed is no listening unix stream socket: "
                            "look at ListenStream= of the socket unit",
                            fd));
  }
  if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0 ||
      fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
    return fail(Error::system(Errc::NoResources, errno, "preparing descriptor %d", fd));
  }
  return ClientListener(std::move(socket));
}

ClientListener& ClientListener::operator=(ClientListener&& other) noexcept {
  if (this != &other) {
    remove_names();
    socket_ = std::move(other.socket_);
    names_ = std::exchange(other.names_, {});
  }
  return *this;
}

std::string ClientListener::path() const {
  sockaddr_un address{};
  socklen_t size = sizeof(address);
  if (getsockname(fd(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return {};
  }
  const std::string_view name(std::begin(address.sun_path), sizeof(address.sun_path));
  return std::string(name.substr(0, name.find('\0')));
}

Result<> ClientListener::own(const std::string& path) {
  struct stat made {};
  if (lstat(path.c_str(), &made) != 0) {
    return fail(Error::system(Errc::NoPermission, errno, "looking at %s", path.c_str()));
  }
  names_.push_back({path, made.st_dev, made.st_ino});
  return {};
}

void ClientListener::remove_names() noexcept {
  for (const Name& name : names_) {
    struct stat found {};
    if (lstat(name.path.c_str(), &found) == 0 && found.st_dev == name.device &&
        found.st_ino == name.inode) {
      unlink(name.path.c_str());
    }
  }
  names_.clear();
}

Result<ClientListener> listen_client_socket(const std::string& path, mode_t mode,
                                            const std::vector<std::string>& links) {
  const auto address = address_of(path);
  if (!address) {
    return fail(address.error());
  }
  const auto lock = lock_names(path);
  if (!lock) {
    return fail(lock.error());
  }
  // All names are looked at before the first is taken, and free before the socket is there: a link
  // that a dead service left would lead to it.
  for (const std::string& link : links) {
    if (auto free = check_nobody_listens(link); !free) {
      return fail(free.error());
    }
  }
  if (auto cleared = clear(path, S_IFSOCK); !cleared) {
    return fail(cleared.error());
  }
  for (const std::string& link : links) {
    if (auto cleared = clear(link, S_IFLNK); !cleared) {
      return fail(cleared.error());
    }
  }
  auto socket = make_socket();
  if (!socket) {
    return fail(socket.error());
  }
  if (bind(socket->value(), generic(*address), sizeof(*address)) != 0) {
    const int error = errno;
    return fail(Error::system(error == EADDRINUSE ? Errc::Busy : Errc::NoPermission, error,
                              "binding the clients' socket %s", path.c_str()));
  }
  ClientListener listener(std::move(*socket));
  if (auto owned = listener.own(path); !owned) {
    return fail(owned.error());
  }
  // Nobody can connect before it listens, so nobody sees it with other rights.
  if (chmod(path.c_str(), mode) != 0 || listen(listener.fd(), kBacklog) != 0) {
    return fail(Error::system(Errc::NoResources, errno, "listening at %s", path.c_str()));
  }
  for (const std::string& link : links) {
    if (symlink(target_of(link, path).c_str(), link.c_str()) != 0) {
      return fail(Error::system(Errc::NoPermission, errno, "making the link %s to %s", link.c_str(),
                                path.c_str()));
    }
    if (auto owned = listener.own(link); !owned) {
      return fail(owned.error());
    }
  }
  return listener;
}

Result<std::size_t> raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return fail(Error::system(Errc::NoResources, errno, "reading the limit of open descriptors"));
  }
  if (limit.rlim_cur != limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
      return fail(Error::system(Errc::NoResources, errno,
                                "raising the limit of open descriptors to %llu",
                                static_cast<unsigned long long>(limit.rlim_max)));
    }
  }
  return static_cast<std::size_t>(limit.rlim_cur);
}

}  // namespace wireup::acm
