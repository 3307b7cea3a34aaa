// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <utility>

namespace wireup::verbs {

/// Prints one line on stderr: a verbs object could not be destroyed. Usually a child of it is
/// still alive, which is a defect of ours; the process goes on.
void report_destroy_failure(const char* what, int error_number) noexcept;

/// Owns one object of libibverbs: unique, movable, null after a move. `destroy` is the function of
/// the Ops table that ends it; a failure in the destructor is reported, never thrown.
template <typename T>
class Handle {
 public:
  using Destroy = int (*)(T*);

  Handle() noexcept = default;
  Handle(T* raw, Destroy destroy, const char* what) noexcept
      : raw_(raw), destroy_(destroy), what_(what) {}
  Handle(Handle&& other) noexcept
      : raw_(std::exchange(other.raw_, nullptr)), destroy_(other.destroy_), what_(other.what_) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      reset();
      raw_ = std::exchange(other.raw_, nullptr);
      destroy_ = other.destroy_;
      what_ = other.what_;
    }
    return *this;
  }
  ~Handle() { reset(); }

  [[nodiscard]] T* raw() const noexcept { return raw_; }
  explicit operator bool() const noexcept { return raw_ != nullptr; }
  void reset() noexcept {
    T* raw = std::exchange(raw_, nullptr);
    if (raw == nullptr) {
      return;
    }
    if (const int error = destroy_(raw); error != 0) {
      report_destroy_failure(what_, error);
    }
  }

 private:
  T* raw_ = nullptr;
  Destroy destroy_ = nullptr;
  const char* what_ = "";
};

}  // namespace wireup::verbs
