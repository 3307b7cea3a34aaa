// SPDX-License-Identifier: BSD-3-Clause
// Copies between private memory and memory that another process may write at the same moment, word
// by word. A record can still be torn; sequence numbers tell. So that they can, every load acquires
// (what is loaded later, the sequence number, is not older) and every store releases (what was
// stored before, the odd number, is not seen later). On x86 both are ordinary moves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace softhca {

using AliasedWord [[gnu::may_alias]] = std::uint64_t;

template <typename T>
concept SharedRecord = std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(AliasedWord) == 0 &&
                       alignof(T) >= alignof(AliasedWord);

/// A private copy of a record in shared memory.
template <SharedRecord T>
T load_record(const T& shared) {
  T copy;
  const auto* from = static_cast<const AliasedWord*>(static_cast<const void*>(&shared));
  auto* to = static_cast<AliasedWord*>(static_cast<void*>(&copy));
  for (std::size_t i = 0; i < sizeof(T) / sizeof(AliasedWord); ++i) {
    to[i] = __atomic_load_n(from + i, __ATOMIC_ACQUIRE);
  }
  return copy;
}

template <SharedRecord T>
void store_record(T& shared, const T& value) {
  const auto* from = static_cast<const AliasedWord*>(static_cast<const void*>(&value));
  auto* to = static_cast<AliasedWord*>(static_cast<void*>(&shared));
  for (std::size_t i = 0; i < sizeof(T) / sizeof(AliasedWord); ++i) {
    __atomic_store_n(to + i, from[i], __ATOMIC_RELEASE);
  }
}

/// One integer.
template <typename T>
requires std::is_integral_v<T> || std::is_enum_v<T> T load_field(const T& shared) {
  return __atomic_load_n(&shared, __ATOMIC_ACQUIRE);
}

template <typename T>
requires std::is_integral_v<T> || std::is_enum_v<T>
void store_field(T& shared, std::type_identity_t<T> value) {
  __atomic_store_n(&shared, value, __ATOMIC_RELEASE);
}

}  // namespace softhca
