// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace wireup::acm {

/// A shared mapping of a file. Move-only.
class Mapping {
 public:
  Mapping() noexcept = default;
  /// Maps the first `size` bytes; `name` is for the error. The file must be at least as long, or
  /// touching the rest kills the process.
  [[nodiscard]] static Result<Mapping> map(int fd, std::size_t size, bool writable,
                                           const std::string& name);
  Mapping(Mapping&& other) noexcept
      : address_(std::exchange(other.address_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping() { unmap(); }

  [[nodiscard]] void* address() const noexcept { return address_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  Mapping(void* address, std::size_t size) noexcept : address_(address), size_(size) {}
  void unmap() noexcept;

  void* address_ = nullptr;
  std::size_t size_ = 0;
};

/// Opens a file that other processes of the node write, without following a link at its end, and
/// trusts it only when it is a regular file, owned by root or by this user, that neither group nor
/// others may write. Checked on the open descriptor. Errc::NoPermission when it is not to be
/// trusted, Errc::NotFound when there is none.
[[nodiscard]] Result<UniqueFd> open_trusted(const std::string& path, int flags);

/// Lets every user read an open file of ours, whatever the umask.
[[nodiscard]] Result<> let_everybody_read(int fd, const std::string& name);

/// Size of an open file in bytes.
[[nodiscard]] Result<std::size_t> file_size(int fd, const std::string& name);

/// A number that tells this boot of the system from another; 0 when it is not known.
[[nodiscard]] std::uint64_t boot_hash() noexcept;

}  // namespace wireup::acm
