// SPDX-License-Identifier: BSD-3-Clause
//
// Each cell of the connection's table, visited with a real engine: what is expected is written by
// hand from IBTA vol 1, 12.9.5 to 12.9.7, 12.9.8.3 (duplicates, stale connections) and from what
// Linux' ib_cm does, not taken from the table.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>
#include <utility>

#include "cm/engine/table.hpp"
#include "cm/played_engine.hpp"

namespace wireup::cm {
namespace {

using S = State;
using I = Input;

struct Expected {
  S from;
  I input;
  S to;
  /// As PlayedEngine::observed() has it.
  const char* effect;
};

/// Where something happens. In all other cells, but for kElsewhere, the state stays; a command is
/// refused, a message dropped as unexpected, and time alone does nothing.
constexpr Expected kExpected[] = {
    {S::Idle, I::SendReq, S::ReqSent, ">REQ"},
    {S::Idle, I::RecvReq, S::ReqRcvd, "!ReqReceived"},

    // Active side, waiting for the REP.
    {S::ReqSent, I::SendRej, S::Idle, ">REJ"},
    {S::ReqSent, I::Abandon, S::Idle, ""},
    {S::ReqSent, I::RecvMraOfReq, S::MraReqRcvd, "!MraReceived"},
    {S::ReqSent, I::RecvRep, S::RepRcvd, "!RepReceived"},
    {S::ReqSent, I::RecvRej, S::Idle, "!Rejected"},
    {S::ReqSent, I::RecvRejStale, S::Timewait, "!Rejected"},
    {S::ReqSent, I::RecvPeerReq, S::ReqRcvd, "!ReqReceived"},
    {S::ReqSent, I::RetransmitDue, S::ReqSent, ">REQ"},
    {S::ReqSent, I::DeadlinePassed, S::Idle, ">REJ !Failed"},
    {S::MraReqRcvd, I::SendRej, S::Idle, ">REJ"},
    {S::MraReqRcvd, I::Abandon, S::Idle, ""},
    {S::MraReqRcvd, I::RecvMraOfReq, S::MraReqRcvd, "!MraReceived"},
    {S::MraReqRcvd, I::RecvRep, S::RepRcvd, "!RepReceived"},
    {S::MraReqRcvd, I::RecvRej, S::Idle, "!Rejected"},
    {S::MraReqRcvd, I::RecvRejStale, S::Timewait, "!Rejected"},
    {S::MraReqRcvd, I::RecvPeerReq, S::ReqRcvd, "!ReqReceived"},
    {S::MraReqRcvd, I::RetransmitDue, S::MraReqRcvd, ">REQ"},
    {S::MraReqRcvd, I::DeadlinePassed, S::Idle, ">REJ !Failed"},

    // Active side, its consumer moves the queue pair.
    {S::RepRcvd, I::SendRtu, S::Established, ">RTU"},
    {S::RepRcvd, I::SendRej, S::Idle, ">REJ"},
    {S::RepRcvd, I::SendMra, S::MraRepSent, ">MRA"},
    {S::RepRcvd, I::Abandon, S::Idle, ""},
    {S::RepRcvd, I::RecvRep, S::RepRcvd, "~duplicate"},
    {S::RepRcvd, I::RecvRej, S::Timewait, "!Rejected"},
    {S::RepRcvd, I::RecvRejStale, S::Timewait, "!Rejected"},
    {S::RepRcvd, I::DeadlinePassed, S::Idle, ">REJ !Failed"},
    {S::MraRepSent, I::SendRtu, S::Established, ">RTU"},
    {S::MraRepSent, I::SendRej, S::Idle, ">REJ"},
    {S::MraRepSent, I::Abandon, S::Idle, ""},
    {S::MraRepSent, I::RecvRep, S::MraRepSent, ">MRA"},
    {S::MraRepSent, I::RecvRej, S::Timewait, "!Rejected"},
    {S::MraRepSent, I::RecvRejStale, S::Timewait, "!Rejected"},
    {S::MraRepSent, I::DeadlinePassed, S::Idle, ">REJ !Failed"},

    // Passive side, its consumer decides.
    {S::ReqRcvd, I::SendRep, S::RepSent, ">REP"},
    {S::ReqRcvd, I::SendRej, S::Idle, ">REJ"},
    {S::ReqRcvd, I::SendMra, S::MraReqSent, ">MRA"},
    {S::ReqRcvd, I::Abandon, S::Idle, ""},
    {S::ReqRcvd, I::RecvReq, S::ReqRcvd, "~duplicate"},
    {S::ReqRcvd, I::RecvRej, S::Idle, "!Rejected"},
    {S::ReqRcvd, I::RecvRejStale, S::Timewait, "!Rejected"},
    {S::ReqRcvd, I::DeadlinePassed, S::Idle, ">REJ !Failed"},
    {S::MraReqSent, I::SendRep, S::RepSent, ">REP"},
    {S::MraReqSent, I::SendRej, S::Idle, ">REJ"},
    {S::MraReqSent, I::Abandon, S::Idle, ""},
    {S::MraReqSent, I::RecvReq, S::MraReqSent, ">MRA"},
    {S::MraReqSent, I::RecvRej, S::Idle, "!Rejected"},
    {S::MraReqSent, I::RecvRejStale, S::Timewait, "!Rejected"},
    {S::MraReqSent, I::DeadlinePassed, S::Idle, ">REJ !Failed"},

    // Passive side, waiting for the RTU.
    {S::RepSent, I::SendRej, S::Timewait, ">REJ"},
    {S::RepSent, I::NotifyEstablished, S::Established, "!Established"},
    {S::RepSent, I::Abandon, S::Idle, ""},
    {S::RepSent, I::RecvReq, S::RepSent, ">REP"},
    {S::RepSent, I::RecvMraOfRep, S::MraRepRcvd, "!MraReceived"},
    {S::RepSent, I::RecvRtu, S::Established, "!Established"},
    {S::RepSent, I::RecvRej, S::Idle, "!Rejected"},
    {S::RepSent, I::RecvRejStale, S::Timewait, "!Rejected"},
    {S::RepSent, I::RecvDreq, S::DreqRcvd, "!Established !Disconnected"},
    {S::RepSent, I::RetransmitDue, S::RepSent, ">REP"},
    {S::RepSent, I::DeadlinePassed, S::Idle, ">REJ !Failed"},
    {S::MraRepRcvd, I::SendRej, S::Timewait, ">REJ"},
    {S::MraRepRcvd, I::NotifyEstablished, S::Established, "!Established"},
    {S::MraRepRcvd, I::Abandon, S::Idle, ""},
    {S::MraRepRcvd, I::RecvReq, S::MraRepRcvd, "~duplicate"},
    {S::MraRepRcvd, I::RecvMraOfRep, S::MraRepRcvd, "!MraReceived"},
    {S::MraRepRcvd, I::RecvRtu, S::Established, "!Established"},
    {S::MraRepRcvd, I::RecvRej, S::Idle, "!Rejected"},
    {S::MraRepRcvd, I::RecvRejStale, S::Timewait, "!Rejected"},
    {S::MraRepRcvd, I::RecvDreq, S::DreqRcvd, "!Established !Disconnected"},
    {S::MraRepRcvd, I::RetransmitDue, S::MraRepRcvd, ">REP"},
    {S::MraRepRcvd, I::DeadlinePassed, S::Idle, ">REJ !Failed"},

    {S::Established, I::SendDreq, S::DreqSent, ">DREQ"},
    {S::Established, I::Abandon, S::Timewait, ""},
    {S::Established, I::RecvReq, S::Established, "~duplicate"},
    {S::Established, I::RecvRep, S::Established, ">RTU"},
    {S::Established, I::RecvRtu, S::Established, "~duplicate"},
    {S::Established, I::RecvRej, S::Timewait, "!Disconnected"},
    {S::Established, I::RecvRejStale, S::Timewait, "!Disconnected"},
    {S::Established, I::RecvDreq, S::DreqRcvd, "!Disconnected"},
    {S::Established, I::RecvTwin, S::DreqSent, ">REJ >DREQ !Disconnected"},

    {S::DreqSent, I::Abandon, S::Timewait, ""},
    {S::DreqSent, I::RecvReq, S::DreqSent, "~duplicate"},
    {S::DreqSent, I::RecvRej, S::Timewait, "!Disconnected"},
    {S::DreqSent, I::RecvRejStale, S::Timewait, "!Disconnected"},
    {S::DreqSent, I::RecvDreq, S::DreqRcvd, "!Disconnected"},
    {S::DreqSent, I::RecvDrep, S::Timewait, "!Disconnected"},
    {S::DreqSent, I::RecvTwin, S::DreqSent, ">REJ"},
    {S::DreqSent, I::RetransmitDue, S::DreqSent, ">DREQ"},
    {S::DreqSent, I::DeadlinePassed, S::Timewait, "!Disconnected"},

    {S::DreqRcvd, I::SendDrep, S::Timewait, ">DREP"},
    {S::DreqRcvd, I::Abandon, S::Timewait, ""},
    {S::DreqRcvd, I::RecvReq, S::DreqRcvd, "~duplicate"},
    {S::DreqRcvd, I::RecvDreq, S::DreqRcvd, "~duplicate"},
    {S::DreqRcvd, I::RecvTwin, S::DreqRcvd, ">REJ"},
    {S::DreqRcvd, I::DeadlinePassed, S::Timewait, ">DREP"},

    {S::Timewait, I::Abandon, S::Timewait, ""},
    {S::Timewait, I::RecvReq, S::Timewait, ">REJ"},
    {S::Timewait, I::RecvDreq, S::Timewait, ">DREP"},
    {S::Timewait, I::RecvDrep, S::Timewait, "~duplicate"},
    {S::Timewait, I::RecvTwin, S::Timewait, ">REJ"},
    {S::Timewait, I::TimewaitOver, S::Idle, "!TimewaitExit"},

    // Messages whose place in the state is known before the table is asked.
    {S::RepRcvd, I::RecvTwin, S::RepRcvd, "~crossing"},
    {S::MraRepSent, I::RecvTwin, S::MraRepSent, "~crossing"},
    {S::RepSent, I::RecvTwin, S::RepSent, "~crossing"},
    {S::MraRepRcvd, I::RecvTwin, S::MraRepRcvd, "~crossing"},
    {S::RepRcvd, I::RecvReq, S::RepRcvd, "~duplicate"},
    {S::MraRepSent, I::RecvReq, S::MraRepSent, "~duplicate"},

    // A message to a connection that is no more.
    {S::Idle, I::RecvMraOfReq, S::Idle, "~unknown connection"},
    {S::Idle, I::RecvMraOfRep, S::Idle, "~unknown connection"},
    {S::Idle, I::RecvRep, S::Idle, ">REJ ~unknown connection"},
    {S::Idle, I::RecvRtu, S::Idle, "~unknown connection"},
    {S::Idle, I::RecvRej, S::Idle, "~unknown connection"},
    {S::Idle, I::RecvRejStale, S::Idle, "~unknown connection"},
    {S::Idle, I::RecvDreq, S::Idle, ">DREP ~unknown connection"},
    {S::Idle, I::RecvDrep, S::Idle, "~unknown connection"},
    {S::Idle, I::Abandon, S::Idle, ""},
};

/// Cells whose input cannot reach a connection in the state: what it does instead. The connection
/// stays as it is.
struct Elsewhere {
  const char* reason;
  I input;
  std::set<S> states;
  const char* effect;
};

const Elsewhere kElsewhere[] = {
    {"connect() names no connection: it makes another one",
     I::SendReq,
     {S::ReqSent, S::MraReqRcvd, S::RepRcvd, S::MraRepSent, S::ReqRcvd, S::MraReqSent, S::RepSent,
      S::MraRepRcvd, S::Established, S::DreqSent, S::DreqRcvd},
     ">REQ"},
    {"connect() names no connection, and the queue pair rests", I::SendReq, {S::Timewait}, "?Busy"},
    {"a handle of IDLE is that of a connection which has ended",
     I::SendRep,
     {S::Idle},
     "?NotFound"},
    {"as above", I::SendRtu, {S::Idle}, "?NotFound"},
    {"as above", I::SendRej, {S::Idle}, "?NotFound"},
    {"as above", I::SendMra, {S::Idle}, "?NotFound"},
    {"as above", I::SendDreq, {S::Idle}, "?NotFound"},
    {"as above", I::SendDrep, {S::Idle}, "?NotFound"},
    {"as above", I::NotifyEstablished, {S::Idle}, "?NotFound"},
    {"the connection does not know its peer's id yet: the REQ asks for another one",
     I::RecvReq,
     {S::ReqSent, S::MraReqRcvd},
     "!ReqReceived"},
    {"the connection does not own its peer's queue pair yet: the REQ asks for another one",
     I::RecvTwin,
     {S::Idle, S::ReqSent, S::MraReqRcvd, S::ReqRcvd, S::MraReqSent},
     "!ReqReceived"},
    {"the connection does not know its peer's id yet: the DREQ is a stranger's",
     I::RecvDreq,
     {S::ReqSent, S::MraReqRcvd},
     ">DREP ~unknown connection"},
    {"no connect waits for the peer: an ordinary REQ", I::RecvPeerReq, {S::Idle}, "!ReqReceived"},
    {"the connect does not wait any more: a repeated REQ of the connection itself",
     I::RecvPeerReq,
     {S::RepRcvd, S::MraRepSent, S::ReqRcvd, S::MraRepRcvd, S::Established, S::DreqSent,
      S::DreqRcvd},
     "~duplicate"},
    {"as above, which is answered again", I::RecvPeerReq, {S::MraReqSent}, ">MRA"},
    {"as above", I::RecvPeerReq, {S::RepSent}, ">REP"},
    {"as above, which is stale", I::RecvPeerReq, {S::Timewait}, ">REJ"},
};

/// An engine with one connection that is brought into a state and given an input.
class Visitor {
 public:
  /// False when the state was not reached.
  [[nodiscard]] bool reach(S state, I input) {
    // A peer-to-peer connect that has yielded is the passive side under the same handle.
    const bool peer_to_peer = input == I::RecvPeerReq;
    switch (state) {
      case S::Idle:
        connect(false);
        play_.engine.abandon(handle_, play_.now);
        break;
      case S::ReqSent:
        connect(peer_to_peer);
        break;
      case S::MraReqRcvd:
        connect(peer_to_peer);
        play_.receive(play_.mra(mad::MraOf::Req));
        break;
      case S::RepRcvd:
        reply(peer_to_peer);
        break;
      case S::MraRepSent:
        reply(peer_to_peer);
        delay();
        break;
      case S::ReqRcvd:
        be_asked(peer_to_peer);
        break;
      case S::MraReqSent:
        be_asked(peer_to_peer);
        delay();
        break;
      case S::RepSent:
        accept(peer_to_peer);
        break;
      case S::MraRepRcvd:
        accept(peer_to_peer);
        play_.receive(play_.mra(mad::MraOf::Rep));
        break;
      case S::Established:
        establish(input);
        break;
      case S::DreqSent:
        establish(input);
        play_.note(play_.engine.disconnect(handle_, {}, play_.now));
        break;
      case S::DreqRcvd:
        establish(input);
        play_.receive(play_.dreq());
        break;
      case S::Timewait:
        establish(input);
        play_.note(play_.engine.disconnect(handle_, {}, play_.now));
        play_.receive(play_.message<mad::Drep>());
        break;
      case S::kCount:
        break;
    }
    static_cast<void>(play_.observed());
    return this->state() == state;
  }

  void apply(S state, I input) {
    Engine& engine = play_.engine;
    const Instant now = play_.now;
    switch (input) {
      case I::SendReq:
        if (const auto made = engine.connect(play_.connect_params(), now); !made) {
          play_.note(made);
        } else if (state == S::Idle) {
          handle_ = *made;
        }
        return;
      case I::SendRep:
        return play_.note(engine.accept(handle_, play_.accept_params(), now));
      case I::SendRtu:
        return play_.note(engine.establish(handle_, {}, now));
      case I::SendRej:
        return play_.note(engine.reject(handle_, mad::RejReason::ConsumerReject, {}, {}, now));
      case I::SendMra:
        return delay();
      case I::SendDreq:
        return play_.note(engine.disconnect(handle_, {}, now));
      case I::SendDrep:
        return play_.note(engine.release(handle_, {}, now));
      case I::NotifyEstablished:
        return play_.note(engine.notify_established(handle_, now));
      case I::Abandon:
        return engine.abandon(handle_, now);
      case I::RecvReq:
      case I::RecvPeerReq:
        return play_.receive(PlayedEngine::req());
      case I::RecvMraOfReq:
        return play_.receive(play_.mra(mad::MraOf::Req));
      case I::RecvMraOfRep:
        return play_.receive(play_.mra(mad::MraOf::Rep));
      case I::RecvRep:
        return play_.receive(play_.rep());
      case I::RecvRtu:
        return play_.receive(play_.message<mad::Rtu>());
      case I::RecvRej:
        return play_.receive(play_.rej(mad::RejReason::ConsumerReject));
      case I::RecvRejStale:
        return play_.receive(play_.rej(mad::RejReason::StaleConnection));
      case I::RecvDreq:
        // Before accept() we have no queue pair that it could name.
        return play_.receive(play_.dreq(
            state == S::ReqRcvd || state == S::MraReqSent ? Qpn{} : PlayedEngine::kOurQpn));
      case I::RecvDrep:
        return play_.receive(play_.message<mad::Drep>());
      case I::RecvTwin:
        return play_.receive(PlayedEngine::req(CommId(0x8888)));
      case I::RetransmitDue:
        return play_.wait(PlayedEngine::kRetransmission);
      case I::DeadlinePassed:
        // TIMEWAIT is over before: there is no later time in it.
        return play_.wait(state == S::Timewait ? PlayedEngine::kTimewait - Duration(1)
                                               : PlayedEngine::kDeadline);
      case I::TimewaitOver:
        return play_.wait(state == S::Timewait ? PlayedEngine::kTimewait : Duration(1));
      case I::kCount:
        return;
    }
  }

  [[nodiscard]] std::string observed() {
    std::string text = play_.observed();
    const auto* req = play_.last_event ? std::get_if<ReqReceived>(&*play_.last_event) : nullptr;
    if (req != nullptr && !play_.engine.state(handle_).has_value()) {
      offered_ = req->handle;
    }
    return text;
  }
  [[nodiscard]] S state() const { return play_.engine.state(handle_).value_or(S::Idle); }
  /// Of IDLE x REQ: the connection that came of it.
  [[nodiscard]] S offered_state() const { return play_.engine.state(offered_).value_or(S::Idle); }

 private:
  void connect(bool peer_to_peer) {
    const auto made = play_.engine.connect(play_.connect_params(peer_to_peer), play_.now);
    play_.note(made);
    handle_ = made.value_or(Handle{});
    static_cast<void>(play_.observed());
  }
  void reply(bool peer_to_peer) {
    connect(peer_to_peer);
    play_.receive(play_.rep());
  }
  void be_asked(bool peer_to_peer) {
    if (peer_to_peer) {
      connect(true);
    }
    play_.receive(PlayedEngine::req());
    static_cast<void>(play_.observed());
    handle_ = handle_of(*play_.last_event);
    // Our id is told by our first message only; a copy of the engine tells it before.
    PlayedEngine copy = play_;
    copy.note(copy.engine.delay(handle_, IbTimeout(18), {}, copy.now));
    static_cast<void>(copy.observed());
    play_.our_id = copy.our_id;
  }
  void accept(bool peer_to_peer) {
    be_asked(peer_to_peer);
    play_.note(play_.engine.accept(handle_, play_.accept_params(), play_.now));
    static_cast<void>(play_.observed());
  }
  /// The passive side knows its peer's REQ, the active one its REP.
  void establish(I input) {
    if (input == I::RecvRep) {
      reply(false);
      play_.note(play_.engine.establish(handle_, {}, play_.now));
    } else {
      accept(input == I::RecvPeerReq);
      play_.receive(play_.message<mad::Rtu>());
    }
    static_cast<void>(play_.observed());
  }
  void delay() { play_.note(play_.engine.delay(handle_, IbTimeout(18), {}, play_.now)); }

  PlayedEngine play_;
  Handle handle_;
  Handle offered_;
};

enum class Class : std::uint8_t { Command, Message, Timer };
constexpr std::array kClasses = {
#define WIREUP_CM_CLASS(name, kind, text) Class::kind,
    WIREUP_CM_INPUTS(WIREUP_CM_CLASS)
#undef WIREUP_CM_CLASS
};
static_assert(kClasses.size() == kInputs);
Class class_of(I input) {
  return kClasses.at(static_cast<std::size_t>(input));
}

const char* effect_of_nothing(I input) {
  switch (class_of(input)) {
    case Class::Command:
      return "?InvalidState";
    case Class::Message:
      return "~unexpected in this state";
    case Class::Timer:
      break;
  }
  return "";
}

TEST(ConnectionCells, EachIsVisited) {
  std::map<std::pair<S, I>, Expected> expected;
  for (const Expected& cell : kExpected) {
    ASSERT_TRUE(expected.emplace(std::pair{cell.from, cell.input}, cell).second)
        << state_name(cell.from) << " x " << input_name(cell.input) << " is listed twice";
  }
  std::map<std::pair<S, I>, const Elsewhere*> elsewhere;
  for (const Elsewhere& entry : kElsewhere) {
    for (const S state : entry.states) {
      ASSERT_TRUE(elsewhere.emplace(std::pair{state, entry.input}, &entry).second &&
                  !expected.contains({state, entry.input}))
          << state_name(state) << " x " << input_name(entry.input) << " is listed twice";
    }
  }

  std::size_t visited = 0;
  for (std::size_t s = 0; s < kStates; ++s) {
    for (std::size_t i = 0; i < kInputs; ++i) {
      const auto state = static_cast<S>(s);
      const auto input = static_cast<I>(i);
      SCOPED_TRACE(testing::Message() << state_name(state) << " x " << input_name(input));
      Visitor visitor;
      ASSERT_TRUE(visitor.reach(state, input)) << "is in " << state_name(visitor.state());
      visitor.apply(state, input);
      const std::string effect = visitor.observed();
      if (const auto other = elsewhere.find({state, input}); other != elsewhere.end()) {
        EXPECT_EQ(effect, other->second->effect) << other->second->reason;
        EXPECT_EQ(state_name(visitor.state()), state_name(state));
        // Nor does the table have a use for it.
        EXPECT_EQ(state_name(cell_of(state, input).next), state_name(state));
      } else if (const auto found = expected.find({state, input}); found != expected.end()) {
        EXPECT_EQ(effect, found->second.effect);
        const bool is_new = state == S::Idle && input == I::RecvReq;
        EXPECT_EQ(state_name(is_new ? visitor.offered_state() : visitor.state()),
                  state_name(found->second.to));
      } else {
        EXPECT_EQ(effect, effect_of_nothing(input));
        EXPECT_EQ(state_name(visitor.state()), state_name(state));
      }
      ++visited;
    }
  }
  EXPECT_EQ(visited, std::size_t{13} * 23) << "the table has grown: extend the lists above";
  EXPECT_EQ(visited, kStates * kInputs);
}

}  // namespace
}  // namespace wireup::cm
