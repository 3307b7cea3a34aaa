// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>

namespace wireup::cm {

/// A table State x Input -> next state and action, filled at compile time. The enums end with
/// kCount; `A` has Unset as its first enumerator. For static_assert it tells whether each cell was
/// filled exactly once.
template <typename S, typename I, typename A>
class Cells {
 public:
  struct Cell {
    S next{};
    A action = A::Unset;
    friend constexpr bool operator==(const Cell&, const Cell&) noexcept = default;
  };
  static constexpr std::size_t kStates = static_cast<std::size_t>(S::kCount);
  static constexpr std::size_t kInputs = static_cast<std::size_t>(I::kCount);

  constexpr void set(S state, I input, S next, A action) {
    Cell& cell = at(state, input);
    filled_twice_ = filled_twice_ || cell.action != A::Unset;
    cell = {next, action};
  }
  constexpr void stay(S state, I input, A action) { set(state, input, state, action); }
  /// Fills what is left of an input's cells: the state stays.
  constexpr void otherwise(I input, A action) {
    for (std::size_t state = 0; state < kStates; ++state) {
      Cell& cell = at(static_cast<S>(state), input);
      if (cell.action == A::Unset) {
        cell = {static_cast<S>(state), action};
      }
    }
  }

  [[nodiscard]] constexpr Cell of(S state, I input) const noexcept {
    return cells_[static_cast<std::size_t>(state)][static_cast<std::size_t>(input)];
  }
  [[nodiscard]] constexpr bool is_whole() const noexcept {
    for (const auto& row : cells_) {
      for (const Cell& cell : row) {
        if (cell.action == A::Unset) {
          return false;
        }
      }
    }
    return !filled_twice_;
  }

 private:
  [[nodiscard]] constexpr Cell& at(S state, I input) noexcept {
    return cells_[static_cast<std::size_t>(state)][static_cast<std::size_t>(input)];
  }

  std::array<std::array<Cell, kInputs>, kStates> cells_{};
  bool filled_twice_ = false;
};

}  // namespace wireup::cm
