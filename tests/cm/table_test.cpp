// SPDX-License-Identifier: BSD-3-Clause
#include "cm/engine/table.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>

namespace wireup::cm {
namespace {

using S = State;
using I = Input;

/// The transitions of IBTA vol 1, 12.9.5 to 12.9.7, written out by hand: from, input, to. What is
/// not in the list is not allowed, and leaves the state as it is.
struct Transition {
  S from;
  I input;
  S to;
};

constexpr Transition kTransitions[] = {
    // Active side.
    {S::Idle, I::SendReq, S::ReqSent},
    {S::ReqSent, I::RecvRep, S::RepRcvd},
    {S::ReqSent, I::RecvMraOfReq, S::MraReqRcvd},
    {S::ReqSent, I::RecvRej, S::Idle},
    {S::ReqSent, I::RecvRejStale, S::Timewait},
    {S::ReqSent, I::SendRej, S::Idle},
    {S::ReqSent, I::Abandon, S::Idle},
    {S::ReqSent, I::RetransmitDue, S::ReqSent},
    {S::ReqSent, I::DeadlinePassed, S::Idle},
    {S::ReqSent, I::RecvPeerReq, S::ReqRcvd},
    {S::MraReqRcvd, I::RecvPeerReq, S::ReqRcvd},
    {S::DreqRcvd, I::DeadlinePassed, S::Timewait},
    {S::MraReqRcvd, I::RecvRep, S::RepRcvd},
    {S::MraReqRcvd, I::RecvMraOfReq, S::MraReqRcvd},
    {S::MraReqRcvd, I::RecvRej, S::Idle},
    {S::MraReqRcvd, I::RecvRejStale, S::Timewait},
    {S::MraReqRcvd, I::SendRej, S::Idle},
    {S::MraReqRcvd, I::Abandon, S::Idle},
    {S::MraReqRcvd, I::RetransmitDue, S::MraReqRcvd},
    {S::MraReqRcvd, I::DeadlinePassed, S::Idle},
    {S::RepRcvd, I::SendRtu, S::Established},
    {S::RepRcvd, I::SendMra, S::MraRepSent},
    {S::RepRcvd, I::SendRej, S::Idle},
    {S::RepRcvd, I::Abandon, S::Idle},
    {S::RepRcvd, I::RecvRep, S::RepRcvd},
    {S::RepRcvd, I::RecvRej, S::Timewait},
    {S::RepRcvd, I::RecvRejStale, S::Timewait},
    {S::RepRcvd, I::DeadlinePassed, S::Idle},
    {S::MraRepSent, I::SendRtu, S::Established},
    {S::MraRepSent, I::SendRej, S::Idle},
    {S::MraRepSent, I::Abandon, S::Idle},
    {S::MraRepSent, I::RecvRep, S::MraRepSent},
    {S::MraRepSent, I::RecvRej, S::Timewait},
    {S::MraRepSent, I::RecvRejStale, S::Timewait},
    {S::MraRepSent, I::DeadlinePassed, S::Idle},
    // Passive side.
    {S::Idle, I::RecvReq, S::ReqRcvd},
    {S::ReqRcvd, I::SendRep, S::RepSent},
    {S::ReqRcvd, I::SendMra, S::MraReqSent},
    {S::ReqRcvd, I::SendRej, S::Idle},
    {S::ReqRcvd, I::Abandon, S::Idle},
    {S::ReqRcvd, I::RecvReq, S::ReqRcvd},
    {S::ReqRcvd, I::RecvRej, S::Idle},
    {S::ReqRcvd, I::RecvRejStale, S::Timewait},
    {S::ReqRcvd, I::DeadlinePassed, S::Idle},
    {S::MraReqSent, I::SendRep, S::RepSent},
    {S::MraReqSent, I::SendRej, S::Idle},
    {S::MraReqSent, I::Abandon, S::Idle},
    {S::MraReqSent, I::RecvReq, S::MraReqSent},
    {S::MraReqSent, I::RecvRej, S::Idle},
    {S::MraReqSent, I::RecvRejStale, S::Timewait},
    {S::MraReqSent, I::DeadlinePassed, S::Idle},
    {S::RepSent, I::RecvRtu, S::Established},
    {S::RepSent, I::NotifyEstablished, S::Established},
    {S::RepSent, I::RecvMraOfRep, S::MraRepRcvd},
    {S::RepSent, I::RecvReq, S::RepSent},
    {S::RepSent, I::RecvRej, S::Idle},
    {S::RepSent, I::RecvRejStale, S::Timewait},
    {S::RepSent, I::RecvDreq, S::DreqRcvd},
    {S::RepSent, I::SendRej, S::Timewait},
    {S::RepSent, I::Abandon, S::Idle},
    {S::RepSent, I::RetransmitDue, S::RepSent},
    {S::RepSent, I::DeadlinePassed, S::Idle},
    {S::MraRepRcvd, I::RecvRtu, S::Established},
    {S::MraRepRcvd, I::NotifyEstablished, S::Established},
    {S::MraRepRcvd, I::RecvMraOfRep, S::MraRepRcvd},
    {S::MraRepRcvd, I::RecvReq, S::MraRepRcvd},
    {S::MraRepRcvd, I::RecvRej, S::Idle},
    {S::MraRepRcvd, I::RecvRejStale, S::Timewait},
    {S::MraRepRcvd, I::RecvDreq, S::DreqRcvd},
    {S::MraRepRcvd, I::SendRej, S::Timewait},
    {S::MraRepRcvd, I::Abandon, S::Idle},
    {S::MraRepRcvd, I::RetransmitDue, S::MraRepRcvd},
    {S::MraRepRcvd, I::DeadlinePassed, S::Idle},
    // Both sides.
    {S::Established, I::SendDreq, S::DreqSent},
    {S::Established, I::RecvDreq, S::DreqRcvd},
    {S::Established, I::RecvReq, S::Established},
    {S::Established, I::RecvRep, S::Established},
    {S::Established, I::RecvRtu, S::Established},
    {S::Established, I::RecvRej, S::Timewait},
    {S::Established, I::RecvRejStale, S::Timewait},
    {S::Established, I::RecvTwin, S::DreqSent},
    {S::Established, I::Abandon, S::Timewait},
    {S::DreqSent, I::RecvDrep, S::Timewait},
    {S::DreqSent, I::RecvDreq, S::DreqRcvd},
    {S::DreqSent, I::RecvRej, S::Timewait},
    {S::DreqSent, I::RecvRejStale, S::Timewait},
    {S::DreqSent, I::RecvReq, S::DreqSent},
    {S::DreqSent, I::RecvTwin, S::DreqSent},
    {S::DreqSent, I::Abandon, S::Timewait},
    {S::DreqSent, I::RetransmitDue, S::DreqSent},
    {S::DreqSent, I::DeadlinePassed, S::Timewait},
    {S::DreqRcvd, I::SendDrep, S::Timewait},
    {S::DreqRcvd, I::RecvDreq, S::DreqRcvd},
    {S::DreqRcvd, I::RecvReq, S::DreqRcvd},
    {S::DreqRcvd, I::RecvTwin, S::DreqRcvd},
    {S::DreqRcvd, I::Abandon, S::Timewait},
    {S::Timewait, I::RecvDreq, S::Timewait},
    {S::Timewait, I::RecvDrep, S::Timewait},
    {S::Timewait, I::RecvReq, S::Timewait},
    {S::Timewait, I::RecvTwin, S::Timewait},
    {S::Timewait, I::Abandon, S::Timewait},
    {S::Timewait, I::TimewaitOver, S::Idle},
};

bool is_not_allowed(Action action) {
  return action == Action::Refuse || action == Action::Drop || action == Action::Nothing;
}

TEST(StateTable, HasTheTransitionsOfTheSpecificationAndNoOthers) {
  std::map<std::pair<S, I>, S> expected;
  for (const Transition& t : kTransitions) {
    EXPECT_TRUE(expected.emplace(std::pair{t.from, t.input}, t.to).second)
        << state_name(t.from) << ", " << input_name(t.input) << " is listed twice";
  }
  for (std::size_t s = 0; s < kStates; ++s) {
    for (std::size_t i = 0; i < kInputs; ++i) {
      const auto state = static_cast<S>(s);
      const auto input = static_cast<I>(i);
      const Cell cell = cell_of(state, input);
      const auto found = expected.find({state, input});
      SCOPED_TRACE(testing::Message() << state_name(state) << ", " << input_name(input));
      if (found == expected.end()) {
        EXPECT_TRUE(is_not_allowed(cell.action));
        EXPECT_EQ(cell.next, state);
      } else {
        EXPECT_FALSE(is_not_allowed(cell.action));
        EXPECT_EQ(state_name(cell.next), state_name(found->second));
      }
    }
  }
}

TEST(StateTable, EveryStateCanBeReachedAndLeft) {
  std::set<S> reached = {S::Idle};
  for (std::size_t round = 0; round < kStates; ++round) {
    for (std::size_t i = 0; i < kInputs; ++i) {
      for (const S state : std::set<S>(reached)) {
        reached.insert(cell_of(state, static_cast<I>(i)).next);
      }
    }
  }
  EXPECT_EQ(reached.size(), kStates);
  for (std::size_t s = 0; s < kStates; ++s) {
    bool leaves = false;
    for (std::size_t i = 0; i < kInputs; ++i) {
      leaves = leaves || cell_of(static_cast<S>(s), static_cast<I>(i)).next != static_cast<S>(s);
    }
    EXPECT_TRUE(leaves) << state_name(static_cast<S>(s));
  }
}

/// Whatever waits for somebody has an end: the peer or the consumer may be gone.
TEST(StateTable, EveryStateThatWaitsHasADeadline) {
  for (const S state : {S::ReqSent, S::MraReqRcvd, S::ReqRcvd, S::MraReqSent, S::RepSent,
                        S::MraRepRcvd, S::RepRcvd, S::MraRepSent, S::DreqSent}) {
    const Cell cell = cell_of(state, I::DeadlinePassed);
    EXPECT_FALSE(is_not_allowed(cell.action)) << state_name(state);
  }
}

}  // namespace
}  // namespace wireup::cm
