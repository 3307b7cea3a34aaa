// SPDX-License-Identifier: BSD-3-Clause
#include <variant>

#include "cm/engine/alternate.hpp"
#include "cm/engine/counters.hpp"
#include "cm/engine/events.hpp"
#include "cm/engine/sidr_table.hpp"
#include "cm/engine/state.hpp"

namespace wireup::cm {

std::string_view state_name(State state) noexcept {
  switch (state) {
#define WIREUP_CM_STATE_NAME(name, text) \
  case State::name:                      \
    return text;
    WIREUP_CM_STATES(WIREUP_CM_STATE_NAME)
#undef WIREUP_CM_STATE_NAME
    case State::kCount:
      break;
  }
  return "unknown";
}

std::string_view input_name(Input input) noexcept {
  switch (input) {
#define WIREUP_CM_INPUT_NAME(name, kind, text) \
  case Input::name:                            \
    return text;
    WIREUP_CM_INPUTS(WIREUP_CM_INPUT_NAME)
#undef WIREUP_CM_INPUT_NAME
    case Input::kCount:
      break;
  }
  return "unknown";
}

std::string_view state_name(AlternateState state) noexcept {
  switch (state) {
#define WIREUP_CM_STATE_NAME(name, text) \
  case AlternateState::name:             \
    return text;
    WIREUP_CM_ALTERNATE_STATES(WIREUP_CM_STATE_NAME)
#undef WIREUP_CM_STATE_NAME
    case AlternateState::kCount:
      break;
  }
  return "unknown";
}

std::string_view input_name(AlternateInput input) noexcept {
  switch (input) {
#define WIREUP_CM_INPUT_NAME(name, kind, text) \
  case AlternateInput::name:                   \
    return text;
    WIREUP_CM_ALTERNATE_INPUTS(WIREUP_CM_INPUT_NAME)
#undef WIREUP_CM_INPUT_NAME
    case AlternateInput::kCount:
      break;
  }
  return "unknown";
}

std::string_view state_name(SidrState state) noexcept {
  switch (state) {
#define WIREUP_CM_STATE_NAME(name, text) \
  case SidrState::name:                  \
    return text;
    WIREUP_CM_SIDR_STATES(WIREUP_CM_STATE_NAME)
#undef WIREUP_CM_STATE_NAME
    case SidrState::kCount:
      break;
  }
  return "unknown";
}

std::string_view input_name(SidrInput input) noexcept {
  switch (input) {
#define WIREUP_CM_INPUT_NAME(name, kind, text) \
  case SidrInput::name:                        \
    return text;
    WIREUP_CM_SIDR_INPUTS(WIREUP_CM_INPUT_NAME)
#undef WIREUP_CM_INPUT_NAME
    case SidrInput::kCount:
      break;
  }
  return "unknown";
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
