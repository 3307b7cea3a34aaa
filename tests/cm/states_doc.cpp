// SPDX-License-Identifier: BSD-3-Clause
//
// The CM engine's state tables as Markdown: docs/protocol/cm-states.md is what this prints.
//
//   states_doc           prints
//   states_doc FILE      compares FILE with it, and says how to write FILE anew when it differs
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>

#include "cm/engine/alternate_table.hpp"
#include "cm/engine/sidr_table.hpp"
#include "cm/engine/table.hpp"

namespace wireup::cm {
namespace {

constexpr std::string_view kRefused = "refused (InvalidState)";
constexpr std::string_view kDropped = "counted and dropped";
constexpr std::string_view kNoTimer = "no such timer";

std::string_view words(Action action) {
  switch (action) {
    case Action::Unset:
      break;
    case Action::Refuse:
      return kRefused;
    case Action::Drop:
      return kDropped;
    case Action::Nothing:
      return kNoTimer;
    case Action::DropDuplicate:
      return "dropped as a duplicate";
    case Action::Transmit:
      return "send it";
    case Action::Resend:
      return "send the last message again";
    case Action::Offer:
      return "offer it to the consumer (ReqReceived)";
    case Action::LearnReply:
      return "keep what it says, tell the consumer (RepReceived)";
    case Action::ExtendTimer:
      return "wait as long as it says before sending again (MraReceived)";
    case Action::ReportEstablished:
      return "tell the consumer (Established)";
    case Action::ReportRejected:
      return "tell the consumer (Rejected)";
    case Action::ReportBroken:
      return "tell the consumer (Disconnected: Rejected)";
    case Action::Release:
      return "tell the consumer (Disconnected: ByPeer); send DREP unless the consumer wants to";
    case Action::EstablishAndRelease:
      return "tell the consumer (Established, Disconnected: ByPeer); send DREP unless the consumer "
             "wants to";
    case Action::ReleaseCrossing:
      return "our own DREQ is withdrawn; tell the consumer (Disconnected), send DREP";
    case Action::AnswerAgain:
      return "send DREP again";
    case Action::FinishRelease:
      return "tell the consumer (Disconnected)";
    case Action::GiveUpRelease:
      return "tell the consumer (Disconnected: Timeout)";
    case Action::AnswerForConsumer:
      return "send DREP in the consumer's place";
    case Action::Yield:
      return "withdraw our REQ and offer the peer's (ReqReceived)";
    case Action::RejectStale:
      return "send REJ(stale)";
    case Action::RejectStaleAndRelease:
      return "send REJ(stale), tell the consumer (Disconnected: Stale), send DREQ";
    case Action::GiveUp:
      return "send REJ(timeout), tell the consumer (Failed)";
    case Action::Forget:
      return "nothing is sent or told";
    case Action::ReportTimewaitOver:
      return "tell the consumer (TimewaitExit)";
  }
  return "?";
}

std::string_view words(AlternateAction action) {
  switch (action) {
    case AlternateAction::Unset:
      break;
    case AlternateAction::Refuse:
      return kRefused;
    case AlternateAction::Drop:
      return kDropped;
    case AlternateAction::Nothing:
      return kNoTimer;
    case AlternateAction::DropDuplicate:
      return "dropped as a duplicate";
    case AlternateAction::Transmit:
      return "send it";
    case AlternateAction::Resend:
      return "send the last message again";
    case AlternateAction::Offer:
      return "offer the path to the consumer (AlternateOffered), or send APR(unsupported)";
    case AlternateAction::ReportAnswer:
      return "tell the consumer (AlternateAnswered)";
    case AlternateAction::ExtendTimer:
      return "wait as long as it says before sending again (MraReceived)";
    case AlternateAction::GiveUp:
      return "tell the consumer (AlternateFailed)";
    case AlternateAction::AnswerForConsumer:
      return "send APR(rejected) in the consumer's place";
    case AlternateAction::SwapPaths:
      return "later messages go along the other path";
    case AlternateAction::Believe:
      return "the connection's own table decides";
  }
  return "?";
}

std::string_view words(SidrAction action) {
  switch (action) {
    case SidrAction::Unset:
      break;
    case SidrAction::Refuse:
      return kRefused;
    case SidrAction::Drop:
      return kDropped;
    case SidrAction::Nothing:
      return kNoTimer;
    case SidrAction::DropDuplicate:
      return "dropped as a duplicate";
    case SidrAction::Transmit:
      return "send it";
    case SidrAction::Resend:
      return "send SIDR_REQ again";
    case SidrAction::Offer:
      return "offer it to the consumer (SidrReqReceived), or send SIDR_REP(unsupported)";
    case SidrAction::ReportAnswer:
      return "tell the consumer (SidrRepReceived)";
    case SidrAction::Forget:
      return "nothing is sent or told";
    case SidrAction::GiveUp:
      return "tell the consumer (SidrFailed)";
    case SidrAction::AnswerForConsumer:
      return "send SIDR_REP(rejected) in the consumer's place";
  }
  return "?";
}

/// One row per cell that does something; then, per state, one row for each way of doing nothing.
template <typename S, typename I, typename T>
void print_table(std::ostream& out, const T& table) {
  constexpr auto kStates = static_cast<std::size_t>(S::kCount);
  constexpr auto kInputs = static_cast<std::size_t>(I::kCount);
  out << "| state | input | next state | what is done |\n|---|---|---|---|\n";
  for (std::size_t s = 0; s < kStates; ++s) {
    const auto state = static_cast<S>(s);
    for (std::size_t i = 0; i < kInputs; ++i) {
      const auto cell = table.of(state, static_cast<I>(i));
      const std::string_view action = words(cell.action);
      if (action != kRefused && action != kDropped && action != kNoTimer) {
        out << "| " << state_name(state) << " | " << input_name(static_cast<I>(i)) << " | "
            << state_name(cell.next) << " | " << action << " |\n";
      }
    }
    for (const std::string_view nothing : {kRefused, kDropped, kNoTimer}) {
      std::string inputs;
      for (std::size_t i = 0; i < kInputs; ++i) {
        if (words(table.of(state, static_cast<I>(i)).action) == nothing) {
          inputs += inputs.empty() ? "" : "; ";
          inputs += input_name(static_cast<I>(i));
        }
      }
      if (!inputs.empty()) {
        out << "| " << state_name(state) << " | " << inputs << " | " << state_name(state) << " | "
            << nothing << " |\n";
      }
    }
  }
}

void print(std::ostream& out) {
  out << "# The states of the CM engine\n\n"
         "<!-- Printed from the tables of src/cm/engine by tests/cm/states_doc.cpp; do not edit. "
         "-->\n\n"
         "Each table is the one that the engine runs by: each state with each input, which is a "
         "command of the consumer\n(\"send ...\", \"data arrived\", \"abandon\", \"path "
         "migrated\"), a message of the peer, or a timer. A connection in\nIDLE does not exist: "
         "its handle is not valid any more (commands with it are refused by NotFound), or not "
         "yet;\n"
         "its peer is helped on: a REP that comes for it is answered by REJ(invalid communication "
         "id), a DREQ by DREP.\n\n"
         "## Connections\n\n"
         "IBTA vol 1, 12.9.5 to 12.9.7. LISTEN belongs to service ids, of which the engine keeps "
         "a set. Source:\n`src/cm/engine/table.hpp`.\n\n";
  print_table<State, Input>(out, kTable);
  out << "\n## Alternate paths\n\n"
         "Inside ESTABLISHED (IBTA vol 1, 12.8). Source: `src/cm/engine/alternate_table.hpp`.\n\n";
  print_table<AlternateState, AlternateInput>(out, kAlternateTable);
  out << "\n## Service id resolution\n\n"
         "SIDR (IBTA vol 1, 12.11). Source: `src/cm/engine/sidr_table.hpp`.\n\n";
  print_table<SidrState, SidrInput>(out, kSidrTable);
}

int compare(const char* path) {
  std::ostringstream wanted;
  print(wanted);
  std::ifstream file(path, std::ios::binary);
  const std::string found{std::istreambuf_iterator<char>(file), {}};
  if (found == wanted.str()) {
    return 0;
  }
  std::fprintf(stderr,
               "%s is not what the tables of src/cm/engine say; write it anew by\n"
               "  build/release/tests/cm/cm_states_doc > docs/protocol/cm-states.md\n",
               path);
  return 1;
}

}  // namespace
}  // namespace wireup::cm

int main(int argc, char** argv) {
  if (argc == 2) {
    return wireup::cm::compare(argv[1]);
  }
  wireup::cm::print(std::cout);
  return std::cout.flush() ? 0 : 1;
}
