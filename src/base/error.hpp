// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <system_error>

namespace wireup {

/// What can go wrong, by who has to act. The C API's wireup_status_t mirrors these numbers, so
/// they are never reused.
/// X-macro columns: name, number, sentence.
#define WIREUP_ERRORS(X)                                                                \
  X(InvalidArgument, 1, "an argument is out of its range")                              \
  X(InvalidState, 2, "the call is not allowed in this state")                           \
  X(NotFound, 3, "no such object")                                                      \
  X(NoDevice, 4, "no usable RDMA device or port")                                       \
  X(NoPmix, 5, "no PMIx server answers")                                                \
  X(NoSubnetManager, 6, "the port is not active: no subnet manager has configured it")  \
  X(NoPermission, 7, "the operation needs a privilege that this process lacks")         \
  X(NoResources, 8, "a resource of the device, the process or the system is exhausted") \
  X(MemlockLimit, 9, "the locked-memory limit is too low")                              \
  X(Timeout, 10, "the deadline passed")                                                 \
  X(Malformed, 11, "received bytes do not follow the format")                           \
  X(Unsupported, 12, "the peer or the device does not support this")                    \
  X(Rejected, 13, "the peer refused the connection")                                    \
  X(PeerGone, 14, "the peer does not answer any more")                                  \
  X(PathUnresolved, 15, "no path to the peer's port could be resolved")                 \
  X(CardMissing, 16, "the peer has not published its connection card")                  \
  X(Stale, 17, "the information belongs to an earlier incarnation")                     \
  X(Busy, 18, "temporarily out of room, try again")                                     \
  X(Internal, 19, "a defect in wireup")

enum class Errc : int {
#define WIREUP_ERROR_ENUMERATOR(name, number, sentence) name = (number),
  WIREUP_ERRORS(WIREUP_ERROR_ENUMERATOR)
#undef WIREUP_ERROR_ENUMERATOR
};

/// The category of Errc; messages are the sentences of the table above.
[[nodiscard]] const std::error_category& error_category() noexcept;
[[nodiscard]] std::error_code make_error_code(Errc code) noexcept;
/// Name of the enumerator ("NoDevice"), or "Unknown" for a number outside the table.
[[nodiscard]] std::string_view error_name(Errc code) noexcept;

/// A failure as a value: what kind, and a sentence that names the failed step, the place (device,
/// port, GID, LID, P_Key), the value and what to do. Owns no heap memory; a detail longer than
/// kDetailSize - 1 bytes is cut.
class Error {
 public:
  static constexpr std::size_t kDetailSize = 240;

  Error() noexcept = default;
  explicit Error(Errc code) noexcept : code_(make_error_code(code)) {}
  explicit Error(std::error_code code) noexcept : code_(code) {}

  /// printf-like; the format is checked by the compiler.
  [[gnu::format(printf, 2, 3)]] static Error make(Errc code, const char* format, ...) noexcept;
  /// As make(), for a failed system or verbs call: `error_number` is an errno value, and its text
  /// is appended to the detail.
  [[gnu::format(printf, 3, 4)]] static Error system(Errc code, int error_number, const char* format,
                                                    ...) noexcept;

  [[nodiscard]] std::error_code code() const noexcept { return code_; }
  [[nodiscard]] bool is(Errc code) const noexcept { return code_ == make_error_code(code); }
  /// The detail, or the kind's sentence when there is none.
  [[nodiscard]] std::string_view what() const noexcept;
  /// errno value of the failed call; 0 when it was not one.
  [[nodiscard]] int error_number() const noexcept { return error_number_; }

  friend bool operator==(const Error& a, const Error& b) noexcept {
    return a.code_ == b.code_ && a.error_number_ == b.error_number_ && a.what() == b.what();
  }

 private:
  std::error_code code_ = make_error_code(Errc::Internal);
  int error_number_ = 0;
  std::array<char, kDetailSize> detail_{};
};

}  // namespace wireup

template <>
struct std::is_error_code_enum<wireup::Errc> : std::true_type {};
