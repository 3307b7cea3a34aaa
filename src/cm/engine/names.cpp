// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>
#include <string_view>
#include <variant>

#include "cm/engine/alternate.hpp"
#include "cm/engine/counters.hpp"
#include "cm/engine/events.hpp"
#include "cm/engine/sidr_table.hpp"
#include "cm/engine/state.hpp"

namespace wireup::cm {

namespace {

#define WIREUP_CM_STATE_TEXT(name, text) text,
#define WIREUP_CM_INPUT_TEXT(name, kind, text) text,
constexpr std::string_view kStateNames[] = {WIREUP_CM_STATES(WIREUP_CM_STATE_TEXT)};
constexpr std::string_view kInputNames[] = {WIREUP_CM_INPUTS(WIREUP_CM_INPUT_TEXT)};
constexpr std::string_view kAlternateStateNames[] = {
    WIREUP_CM_ALTERNATE_STATES(WIREUP_CM_STATE_TEXT)};
constexpr std::string_view kAlternateInputNames[] = {
    WIREUP_CM_ALTERNATE_INPUTS(WIREUP_CM_INPUT_TEXT)};
constexpr std::string_view kSidrStateNames[] = {WIREUP_CM_SIDR_STATES(WIREUP_CM_STATE_TEXT)};
constexpr std::string_view kSidrInputNames[] = {WIREUP_CM_SIDR_INPUTS(WIREUP_CM_INPUT_TEXT)};
#undef WIREUP_CM_STATE_TEXT
#undef WIREUP_CM_INPUT_TEXT

/// The text of an enumerator, of which there are as many as texts, before kCount.
template <typename E, std::size_t N>
constexpr std::string_view text_of(const std::string_view (&texts)[N], E value) noexcept {
  static_assert(N == static_cast<std::size_t>(E::kCount));
  const auto index = static_cast<std::size_t>(value);
  return index < N ? texts[index] : "unknown";
}

}  // namespace

std::string_view state_name(State state) noexcept {
  return text_of(kStateNames, state);
}
std::string_view input_name(Input input) noexcept {
  return text_of(kInputNames, input);
}
std::string_view state_name(AlternateState state) noexcept {
  return text_of(kAlternateStateNames, state);
}
std::string_view input_name(AlternateInput input) noexcept {
  return text_of(kAlternateInputNames, input);
}
std::string_view state_name(SidrState state) noexcept {
  return text_of(kSidrStateNames, state);
}
std::string_view input_name(SidrInput input) noexcept {
  return text_of(kSidrInputNames, input);
}

std::string_view step_name(Step step) noexcept {
  switch (step) {
    case Step::Reply:
      return "reply";
    case Step::Accept:
      return "accept";
    case Step::ReadyToUse:
      return "ready-to-use";
    case Step::Establish:
      return "establish";
  }
  return "unknown";
}

std::string_view disconnect_cause_name(DisconnectCause cause) noexcept {
  switch (cause) {
    case DisconnectCause::ByUs:
      return "by us";
    case DisconnectCause::ByPeer:
      return "by peer";
    case DisconnectCause::Timeout:
      return "timeout";
    case DisconnectCause::Rejected:
      return "rejected";
    case DisconnectCause::Stale:
      return "stale";
  }
  return "unknown";
}

std::string_view drop_reason_name(DropReason reason) noexcept {
  switch (reason) {
    case DropReason::Malformed:
      return "malformed";
    case DropReason::UnknownConnection:
      return "unknown connection";
    case DropReason::WrongSource:
      return "wrong source";
    case DropReason::WrongQpn:
      return "wrong queue pair";
    case DropReason::Duplicate:
      return "duplicate";
    case DropReason::UnexpectedState:
      return "unexpected in this state";
    case DropReason::Crossing:
      return "crossing";
    case DropReason::NoRoom:
      return "no room";
    case DropReason::kCount:
      break;
  }
  return "unknown";
}

Handle handle_of(const Event& event) {
  return std::visit([](const auto& e) { return e.handle; }, event);
}

}  // namespace wireup::cm
