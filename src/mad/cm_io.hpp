// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "mad/field.hpp"
#include "mad/header.hpp"

/// The layout of a message is written once, as a function that visits its fields (cm_layout.hpp),
/// and used three times: to read, to write, and at compile time to prove that every bit of the
/// message belongs to exactly one field. For the codecs of src/mad only.
namespace wireup::mad {

inline constexpr std::size_t kCmDataSize = kMadSize - kHeaderSize;

/// How a value type sits in a field: width in bits, and conversion from and to the number.
template <typename T>
struct FieldValue {
  static_assert(std::is_unsigned_v<T>, "a type that has no wire form");
  static constexpr unsigned kWidth = sizeof(T) * 8;
  static constexpr T from(std::uint64_t number) noexcept { return static_cast<T>(number); }
  static constexpr std::uint64_t to(T value) noexcept { return value; }
};
template <>
struct FieldValue<bool> {
  static constexpr unsigned kWidth = 1;
  static constexpr bool from(std::uint64_t number) noexcept { return number != 0; }
  static constexpr std::uint64_t to(bool value) noexcept { return value ? 1 : 0; }
};
template <typename Tag, typename Rep, unsigned Bits>
struct FieldValue<Id<Tag, Rep, Bits>> {
  using Type = Id<Tag, Rep, Bits>;
  static constexpr unsigned kWidth = Bits;
  static constexpr Type from(std::uint64_t number) noexcept {
    return Type(static_cast<Rep>(number));
  }
  static constexpr std::uint64_t to(Type value) noexcept { return value.value(); }
};
template <>
struct FieldValue<PKey> {
  static constexpr unsigned kWidth = 16;
  static constexpr PKey from(std::uint64_t number) noexcept {
    return PKey(static_cast<std::uint16_t>(number));
  }
  static constexpr std::uint64_t to(PKey value) noexcept { return value.value(); }
};
template <>
struct FieldValue<IbTimeout> {
  static constexpr unsigned kWidth = 5;
  static constexpr IbTimeout from(std::uint64_t number) noexcept {
    return IbTimeout(static_cast<std::uint8_t>(number));
  }
  static constexpr std::uint64_t to(IbTimeout value) noexcept { return value.exponent(); }
};
/// The CM's enumerations have two bits and an enumerator for each of the four values.
template <typename T>
requires std::is_enum_v<T>
struct FieldValue<T> {
  static constexpr unsigned kWidth = 2;
  static constexpr T from(std::uint64_t number) noexcept { return static_cast<T>(number); }
  static constexpr std::uint64_t to(T value) noexcept { return static_cast<std::uint64_t>(value); }
};

class FieldReader {
 public:
  static constexpr bool kReads = true;
  explicit constexpr FieldReader(std::span<const std::uint8_t> data) noexcept : data_(data) {}

  template <Field kField, typename T>
  constexpr void field(T& value) const noexcept {
    static_assert(kField.width == FieldValue<T>::kWidth);
    value = FieldValue<T>::from(kField.get(data_));
  }
  template <Field kField>
  constexpr void reserved() const noexcept {}
  template <std::size_t kByte, std::size_t N>
  constexpr void bytes(std::array<std::uint8_t, N>& value) const noexcept {
    static_assert(kByte + N <= kCmDataSize);
    const auto from = data_.subspan(kByte, N);
    std::copy(from.begin(), from.end(), value.begin());
  }

 private:
  std::span<const std::uint8_t> data_;
};

class FieldWriter {
 public:
  static constexpr bool kReads = false;
  /// `data` is all zero.
  explicit constexpr FieldWriter(std::span<std::uint8_t> data) noexcept : data_(data) {}

  template <Field kField, typename T>
  constexpr void field(const T& value) const noexcept {
    static_assert(kField.width == FieldValue<T>::kWidth);
    kField.put(data_, FieldValue<T>::to(value));
  }
  template <Field kField>
  constexpr void reserved() const noexcept {}
  template <std::size_t kByte, std::size_t N>
  constexpr void bytes(const std::array<std::uint8_t, N>& value) const noexcept {
    static_assert(kByte + N <= kCmDataSize);
    const auto to = data_.subspan(kByte, N);
    std::copy(value.begin(), value.end(), to.begin());
  }

 private:
  std::span<std::uint8_t> data_;
};

/// Marks the bits that a layout names. For static_assert.
class FieldCoverage {
 public:
  static constexpr bool kReads = false;

  template <Field kField, typename T>
  constexpr void field(const T&) noexcept {
    mark(kField.first_bit(), kField.end_bit());
  }
  template <Field kField>
  constexpr void reserved() noexcept {
    mark(kField.first_bit(), kField.end_bit());
  }
  template <std::size_t kByte, std::size_t N>
  constexpr void bytes(const std::array<std::uint8_t, N>&) noexcept {
    mark(kByte * 8, (kByte + N) * 8);
  }
  /// Every bit of the CM data was named, and none twice.
  [[nodiscard]] constexpr bool is_exact() const noexcept {
    return !overlap_ && std::all_of(seen_.begin(), seen_.end(), [](bool seen) { return seen; });
  }

 private:
  constexpr void mark(std::size_t from, std::size_t to) noexcept {
    if (from >= to || to > seen_.size()) {
      overlap_ = true;
      return;
    }
    for (std::size_t bit = from; bit < to; ++bit) {
      overlap_ = overlap_ || seen_[bit];
      seen_[bit] = true;
    }
  }

  std::array<bool, kCmDataSize * 8> seen_{};
  bool overlap_ = false;
};

}  // namespace wireup::mad
