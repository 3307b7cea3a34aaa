// SPDX-License-Identifier: BSD-3-Clause
#include "acm/cache/mapping.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

#include "base/ids.hpp"

namespace wireup::acm {

Result<Mapping> Mapping::map(int fd, std::size_t size, bool writable, const std::string& name) {
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* address = mmap(nullptr, size, protection, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) {
    return fail(
        Error::system(Errc::NoResources, errno, "mapping %zu bytes of %s", size, name.c_str()));
  }
  return Mapping(address, size);
}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    unmap();
    address_ = std::exchange(other.address_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

void Mapping::unmap() noexcept {
  if (address_ != nullptr) {
    munmap(address_, size_);
    address_ = nullptr;
  }
}

Result<UniqueFd> open_trusted(const std::string& path, int flags) {
  // Non-blocking for the sake of a pipe that somebody has put there; a file does not mind.
  UniqueFd fd(open(path.c_str(), flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600));
  if (!fd.is_open()) {
    const int error = errno;
    const Errc kind = error == ENOENT ? Errc::NotFound
                      : error == EACCES || error == EPERM || error == ELOOP || error == EROFS
                          ? Errc::NoPermission
                          : Errc::NoResources;
    return fail(Error::system(kind, error, "opening %s", path.c_str()));
  }
  struct stat status {};
  if (fstat(fd.value(), &status) != 0) {
    return fail(
        Error::system(Errc::NoResources, errno, "asking for the owner of %s", path.c_str()));
  }
  const bool is_ours = status.st_uid == 0 || status.st_uid == geteuid();
  if (!S_ISREG(status.st_mode) || !is_ours || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return fail(Error::make(Errc::NoPermission,
                            "%s is not to be trusted (owner uid %u, mode %o): it must be a regular "
                            "file of root or of uid %u that no one else may write; remove it",
                            path.c_str(), status.st_uid, status.st_mode & 07777U, geteuid()));
  }
  return fd;
}

Result<> let_everybody_read(int fd, const std::string& name) {
  if (fchmod(fd, 0644) != 0) {
    return fail(Error::system(Errc::NoPermission, errno, "opening %s to readers", name.c_str()));
  }
  return {};
}

Result<std::size_t> file_size(int fd, const std::string& name) {
  struct stat status {};
  if (fstat(fd, &status) != 0) {
    return fail(Error::system(Errc::NoResources, errno, "asking for the size of %s", name.c_str()));
  }
  return static_cast<std::size_t>(status.st_size);
}

std::uint64_t boot_hash() noexcept {
  const UniqueFd fd(open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  std::array<char, 64> text{};
  const ssize_t size = fd.is_open() ? read(fd.value(), text.data(), text.size()) : 0;
  return size <= 0 ? 0
                   : hash_namespace(std::string_view(text.data(), static_cast<std::size_t>(size)));
}

}  // namespace wireup::acm
