// SPDX-License-Identifier: BSD-3-Clause
// RC and UC requests. The sender does all of it: it looks at the responder's QP, takes its receive,
// moves the data and writes the responder's completion.
#include <algorithm>
#include <optional>

#include "softhca/hca/completion.hpp"
#include "softhca/hca/datagram.hpp"
#include "softhca/hca/deliver.hpp"
#include "softhca/hca/local_memory.hpp"
#include "softhca/hca/migration.hpp"
#include "softhca/hca/mr_table.hpp"
#include "softhca/hca/robust_lock.hpp"
#include "softhca/hca/runtime.hpp"
#include "softhca/hca/transport.hpp"

namespace softhca::hca {
namespace {

constexpr std::uint32_t kPsnMask = 0xFFFFFF;
constexpr std::uint64_t kAtomicOperand = sizeof(std::uint64_t);

/// One request on its way: both ends, and the lock on the responder.
class Exchange {
 public:
  Exchange(const Sender& sender, const SendRequest& request)
      : sender_(sender), request_(request), rt_(sender.runtime), registry_(rt_.registry()) {}

  Outcome run(const SegmentList& local);

 private:
  struct Ends {
    PortIndex their_port;
    const PortAttr* mine;
    const PortAttr* theirs;
    std::uint16_t slid;
  };

  std::optional<Ends> find_path();
  bool accepts(QpRecord& peer, const Ends& ends) const;
  [[nodiscard]] bool fits(const PathRecord& theirs, const Ends& ends) const;
  void arm() const;
  [[nodiscard]] bool reliable() const { return sender_.record.type == IBV_QPT_RC; }

  Outcome message(const SegmentList& local);
  Outcome write(const SegmentList& local);
  Outcome read(const SegmentList& local);
  Outcome atomic(const SegmentList& local);
  [[nodiscard]] bool may_be_carried(const SegmentList& local) const;
  bool carry(const SegmentList& local, const TakenRecv& taken, const SegmentList& scatter,
             CarriedData& data) const;
  Outcome finish_message(const SegmentList& local, TakenRecv& taken,
                         const CarriedData* data = nullptr);

  Outcome copied(CopyResult result, ibv_wc_status remote_fault);
  Outcome refuse(ibv_wc_status status, std::optional<ibv_event_type> event);
  Outcome success(std::uint64_t length);
  void push_receive(const TakenRecv& taken, ibv_wc_status status, std::uint64_t length,
                    const CarriedData* data = nullptr);
  std::optional<SegmentList> remote_list(std::uint64_t length, std::uint32_t access) const;

  const Sender& sender_;
  const SendRequest& request_;
  Runtime& rt_;
  const Registry& registry_;
  std::uint32_t peer_slot_ = kNone;
  QpRecord* peer_ = nullptr;
  std::uint32_t peer_owner_ = 0;
  PortIndex peer_port_ = kNoPort;
  RobustGuard* guard_ = nullptr;
};

std::optional<Exchange::Ends> Exchange::find_path() {
  const PortIndex from = sender_.record.path.port_index;
  const ibv_ah_attr& av = sender_.attr.ah_attr;
  Ends ends{};
  ends.mine = &rt_.ports().port(from);
  if (!ends.mine->active()) {
    return std::nullopt;
  }
  ends.slid = static_cast<std::uint16_t>(ends.mine->lid +
                                         (av.src_path_bits & ((1U << ends.mine->lmc) - 1)));
  SendPath& path = sender_.path;
  const auto their_port = path.there.resolve(rt_.view(), from, av.dlid);
  if (!their_port) {
    return std::nullopt;
  }
  // The acknowledgement needs a way too.
  if (path.back_from != *their_port) {
    path.back.forget();
    path.back_from = *their_port;
  }
  if (path.back.resolve(rt_.view(), *their_port, ends.slid) != from) {
    return std::nullopt;
  }
  ends.their_port = *their_port;
  ends.theirs = &rt_.ports().port(*their_port);
  return ends;
}

/// Whether a packet as this side addresses it fits the path `theirs` of the responder.
bool Exchange::fits(const PathRecord& theirs, const Ends& ends) const {
  const ibv_ah_attr& av = sender_.attr.ah_attr;
  if (theirs.port_index != ends.their_port || theirs.dlid != ends.slid ||
      sender_.attr.pkey_index >= ends.mine->pkey_count ||
      theirs.pkey_index >= ends.theirs->pkey_count ||
      !pkeys_match(ends.mine->pkeys[sender_.attr.pkey_index % kMaxPkeys],
                   ends.theirs->pkeys[theirs.pkey_index % kMaxPkeys])) {
    return false;
  }
  if (av.is_global == 0) {
    return true;
  }
  // With a GRH its GIDs count too: ours must be the one that the responder was told, theirs one of
  // the port's.
  const Gid& mine = ends.mine->gids[av.grh.sgid_index % kMaxGids];
  Gid wanted{};
  std::copy(std::begin(av.grh.dgid.raw), std::end(av.grh.dgid.raw), wanted.begin());
  const auto* const last = ends.theirs->gids.begin() + ends.theirs->gid_count % (kMaxGids + 1);
  return std::find(ends.theirs->gids.begin(), last, wanted) != last &&
         (theirs.is_global == 0 || theirs.dgid == mine);
}

/// What a responder checks before it looks into a packet. It drops what does not fit.
bool Exchange::accepts(QpRecord& peer, const Ends& ends) const {
  const std::uint32_t state = peer.state.load(std::memory_order_relaxed);
  const bool alike = peer.owner.load(std::memory_order_acquire) != 0 &&
                     peer.qpn == sender_.attr.dest_qp_num && peer.hca == ends.theirs->hca_index &&
                     peer.type == sender_.record.type && peer.dest_qpn == sender_.record.qpn &&
                     (state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD) &&
                     peer.path_mtu == static_cast<std::uint32_t>(sender_.attr.path_mtu) &&
                     (!reliable() || peer.expected_psn == sender_.path.next_psn);
  if (!alike) {
    return false;
  }
  if (fits(peer.path, ends)) {
    return true;
  }
  // A sender that has migrated says so in its packets; a responder that is armed follows.
  if (sender_.record.migration.load() != IBV_MIG_MIGRATED ||
      peer.migration.load() != IBV_MIG_ARMED || !fits(peer.alternate, ends)) {
    return false;
  }
  take_alternate(peer);
  send_qp_event(registry_, peer_slot_, IBV_EVENT_PATH_MIG);
  return true;
}

/// Two ends that both want their alternate paths armed have them armed by a message.
void Exchange::arm() const {
  auto& mine = sender_.record.migration;
  auto& theirs = peer_->migration;
  const auto wants = [](std::uint32_t state) {
    return state == IBV_MIG_REARM || state == IBV_MIG_ARMED;
  };
  if (mine.load() == IBV_MIG_MIGRATED || !wants(mine.load()) || !wants(theirs.load())) {
    return;
  }
  for (auto* state : {&mine, &theirs}) {
    std::uint32_t rearm = IBV_MIG_REARM;
    state->compare_exchange_strong(rearm, IBV_MIG_ARMED);
  }
}

Outcome Exchange::run(const SegmentList& local) {
  const auto ends = find_path();
  if (!ends) {
    return Outcome::no_answer();
  }
  peer_slot_ = registry_.find_qp(ends->theirs->hca_index, sender_.attr.dest_qp_num);
  if (peer_slot_ == kNone) {
    return Outcome::no_answer();
  }
  peer_ = &registry_.qp(peer_slot_);
  RobustGuard guard(peer_->rx_lock, registry_.processes(), rt_.token());
  guard_ = &guard;
  if (!accepts(*peer_, *ends)) {
    return Outcome::no_answer();
  }
  peer_port_ = ends->their_port;
  peer_owner_ = peer_->owner.load(std::memory_order_relaxed);
  // What touches no memory of the peer does not find out by itself that the peer is dead.
  const Belief belief = local.total() == 0      ? Belief::None
                        : may_be_carried(local) ? Belief::Short
                                                : Belief::Usual;
  if (rt_.living_pid(peer_owner_, belief) == 0) {
    return Outcome::no_answer();
  }
  switch (request_.opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
      return message(local);
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_ATOMIC_WRITE:
      return write(local);
    case IBV_WR_RDMA_READ:
      return read(local);
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return atomic(local);
    default:
      return Outcome::done(IBV_WC_LOC_QP_OP_ERR);
  }
}

Outcome Exchange::message(const SegmentList& local) {
  TakenRecv taken;
  if (take_recv(registry_, rt_.token(), peer_slot_, 0, taken) != Take::Taken) {
    return Outcome::not_ready(peer_->min_rnr_timer);
  }
  if (taken.room() < local.total()) {
    push_receive(taken, IBV_WC_LOC_LEN_ERR, 0);
    return refuse(IBV_WC_REM_INV_REQ_ERR, std::nullopt);
  }
  const auto scatter = scatter_list(registry_, *peer_, taken);
  CarriedData data;
  if (scatter && carry(local, taken, *scatter, data)) {
    return guard_->held() ? finish_message(local, taken, &data) : Outcome::no_answer();
  }
  const CopyResult result =
      scatter ? rt_.memory().write(peer_owner_, local, *scatter) : CopyResult::RemoteFault;
  if (result == CopyResult::RemoteFault) {
    push_receive(taken, IBV_WC_LOC_PROT_ERR, 0);
    return refuse(IBV_WC_REM_OP_ERR, std::nullopt);
  }
  if (result != CopyResult::Ok || !guard_->held()) {
    if (guard_->held() && taken.srq == kNone) {
      peer_->rq_taken.store(taken.counter, std::memory_order_release);  // it was not used
    }
    return copied(result == CopyResult::Ok ? CopyResult::Gone : result, IBV_WC_REM_OP_ERR);
  }
  return finish_message(local, taken);
}

/// An inline message is read by the processor when it is posted, so it may be read here.
bool Exchange::may_be_carried(const SegmentList& local) const {
  return request_.inline_data() && local.total() <= CarriedData::kMax &&
         (request_.opcode == IBV_WR_SEND || request_.opcode == IBV_WR_SEND_WITH_IMM);
}

/// Puts a short message that goes to one place into `data`. False: it has to be copied.
bool Exchange::carry(const SegmentList& local, const TakenRecv& taken, const SegmentList& scatter,
                     CarriedData& data) const {
  if (!may_be_carried(local) || local.total() == 0 || scatter.segments().empty() ||
      scatter.segments().front().length < local.total()) {
    return false;
  }
  const auto* const last = taken.wqe.sge.begin() + taken.wqe.num_sge;
  const auto* const first =
      std::find_if(taken.wqe.sge.begin(), last, [](const ibv_sge& sge) { return sge.length != 0; });
  data.address = scatter.segments().front().address;
  data.lkey = first->lkey;
  std::uint8_t* to = data.bytes.data();
  for (const Segment& segment : local.segments()) {
    copy_bytes(to, reinterpret_cast<const void*>(segment.address), segment.length);
    to += segment.length;
  }
  return true;
}

Outcome Exchange::finish_message(const SegmentList& local, TakenRecv& taken,
                                 const CarriedData* data) {
  push_receive(taken, IBV_WC_SUCCESS, local.total(), data);
  rt_.count(peer_port_, Counter::RcReceived);
  return success(local.total());
}

Outcome Exchange::write(const SegmentList& local) {
  if ((peer_->access & IBV_ACCESS_REMOTE_WRITE) == 0) {
    return refuse(IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
  }
  if (request_.opcode == IBV_WR_ATOMIC_WRITE && request_.remote_addr % kAtomicOperand != 0) {
    return refuse(IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
  }
  const auto remote = remote_list(local.total(), IBV_ACCESS_REMOTE_WRITE);
  if (!remote) {
    return refuse(IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
  }
  const bool immediate = request_.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  TakenRecv taken;
  if (immediate && take_recv(registry_, rt_.token(), peer_slot_, 0, taken) != Take::Taken) {
    return Outcome::not_ready(peer_->min_rnr_timer);
  }
  const CopyResult result = rt_.memory().write(peer_owner_, local, *remote);
  if (result != CopyResult::Ok || !guard_->held()) {
    if (immediate && guard_->held() && taken.srq == kNone) {
      peer_->rq_taken.store(taken.counter, std::memory_order_release);
    }
    return copied(result == CopyResult::Ok ? CopyResult::Gone : result, IBV_WC_REM_ACCESS_ERR);
  }
  return immediate ? finish_message(local, taken) : success(local.total());
}

Outcome Exchange::read(const SegmentList& local) {
  if (peer_->max_dest_rd_atomic == 0) {
    return refuse(IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
  }
  const auto remote = remote_list(local.total(), IBV_ACCESS_REMOTE_READ);
  if ((peer_->access & IBV_ACCESS_REMOTE_READ) == 0 || !remote) {
    return refuse(IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
  }
  const CopyResult result = rt_.memory().read(peer_owner_, local, *remote);
  return result == CopyResult::Ok ? success(local.total()) : copied(result, IBV_WC_REM_ACCESS_ERR);
}

Outcome Exchange::atomic(const SegmentList& local) {
  if (peer_->max_dest_rd_atomic == 0 || request_.remote_addr % kAtomicOperand != 0) {
    return refuse(IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
  }
  const auto remote = remote_list(kAtomicOperand, IBV_ACCESS_REMOTE_ATOMIC);
  if ((peer_->access & IBV_ACCESS_REMOTE_ATOMIC) == 0 || !remote) {
    return refuse(IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
  }
  // Atomic among the operations of all HCAs of the fabric, not with the processors' own.
  const RobustGuard all(registry_.header().atomics_lock, registry_.processes(), rt_.token());
  std::uint64_t before = 0;
  std::uint64_t after = 0;
  SegmentList old_value;
  SegmentList new_value;
  old_value.add(reinterpret_cast<std::uint64_t>(&before), kAtomicOperand);
  new_value.add(reinterpret_cast<std::uint64_t>(&after), kAtomicOperand);
  CopyResult result = rt_.memory().read(peer_owner_, old_value, *remote);
  if (result != CopyResult::Ok) {
    return copied(result, IBV_WC_REM_ACCESS_ERR);
  }
  const bool add = request_.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  after = add ? before + request_.compare_add : request_.swap;
  // A swap that does not take place writes nothing: what somebody else writes meanwhile stays.
  if (add || before == request_.compare_add) {
    result = rt_.memory().write(peer_owner_, new_value, *remote);
    if (result != CopyResult::Ok) {
      return copied(result, IBV_WC_REM_ACCESS_ERR);
    }
  }
  if (rt_.memory().write(rt_.token(), old_value, local) != CopyResult::Ok) {
    return Outcome::done(IBV_WC_LOC_PROT_ERR);
  }
  return success(kAtomicOperand);
}

Outcome Exchange::copied(CopyResult result, ibv_wc_status remote_fault) {
  switch (result) {
    case CopyResult::Ok:
      return Outcome::done(IBV_WC_SUCCESS);
    case CopyResult::LocalFault:
      return Outcome::done(IBV_WC_LOC_PROT_ERR);
    case CopyResult::RemoteFault:
      return refuse(remote_fault, IBV_EVENT_QP_ACCESS_ERR);
    case CopyResult::Gone:
    case CopyResult::Denied:
      break;
  }
  return Outcome::no_answer();
}

Outcome Exchange::refuse(ibv_wc_status status, std::optional<ibv_event_type> event) {
  if (!reliable()) {
    return Outcome::done(IBV_WC_SUCCESS);  // a UC responder drops what it cannot take
  }
  if (status == IBV_WC_REM_ACCESS_ERR) {
    rt_.count(peer_port_, Counter::RcRemoteAccess);
  }
  if (guard_->held()) {
    fail_responder(registry_, rt_.token(), peer_slot_, event);
  }
  return Outcome::done(status);
}

Outcome Exchange::success(std::uint64_t length) {
  const std::uint64_t mtu = 128U << (sender_.attr.path_mtu & 7U);
  const auto packets =
      static_cast<std::uint32_t>(std::max<std::uint64_t>(1, (length + mtu - 1) / mtu));
  sender_.path.next_psn = (sender_.path.next_psn + packets) & kPsnMask;
  if (guard_->held()) {
    arm();
    peer_->expected_psn = (peer_->expected_psn + packets) & kPsnMask;
    if (peer_->established == 0) {
      peer_->established = 1;
      if (peer_->state.load(std::memory_order_relaxed) == IBV_QPS_RTR) {
        send_qp_event(registry_, peer_slot_, IBV_EVENT_COMM_EST);
      }
    }
  }
  rt_.count(sender_.record.path.port_index, Counter::RcSent);
  return Outcome::done(IBV_WC_SUCCESS, static_cast<std::uint32_t>(length));
}

void Exchange::push_receive(const TakenRecv& taken, ibv_wc_status status, std::uint64_t length,
                            const CarriedData* data) {
  Cqe entry = recv_completion(*peer_, peer_slot_, taken, status);
  entry.carried = data != nullptr ? static_cast<std::uint32_t>(length) : 0;
  if (status == IBV_WC_SUCCESS) {
    const bool write = request_.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    entry.byte_len = static_cast<std::uint32_t>(length);
    entry.opcode = static_cast<std::uint8_t>(write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV);
    if (write || request_.opcode == IBV_WR_SEND_WITH_IMM) {
      entry.wc_flags |= IBV_WC_WITH_IMM;
      entry.imm_data = request_.imm_data;
    }
    entry.src_qp = sender_.record.qpn;
    entry.slid = peer_->path.dlid;
    entry.sl = peer_->path.sl;
    entry.pkey_index = peer_->path.pkey_index;
    entry.solicited = (request_.flags & IBV_SEND_SOLICITED) != 0 ? 1 : 0;
  }
  push_completion(registry_, rt_.token(), peer_->recv_cq, peer_owner_, entry, data);
}

std::optional<SegmentList> Exchange::remote_list(std::uint64_t length, std::uint32_t access) const {
  SegmentList list;
  if (length == 0) {
    return list;  // the key of an empty access is not looked at
  }
  const auto address = translate(registry_, request_.rkey, peer_owner_, peer_->pd,
                                 request_.remote_addr, length, access);
  if (!address || !list.add(*address, length)) {
    return std::nullopt;
  }
  return list;
}

}  // namespace

Outcome execute_connected(const Sender& sender, const SendRequest& request) {
  const bool fetches = request.opcode == IBV_WR_RDMA_READ ||
                       request.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
                       request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  const auto local = local_list(sender, request, fetches ? IBV_ACCESS_LOCAL_WRITE : 0);
  if (!local) {
    return Outcome::done(IBV_WC_LOC_PROT_ERR);
  }
  const bool is_atomic =
      (fetches && request.opcode != IBV_WR_RDMA_READ) || request.opcode == IBV_WR_ATOMIC_WRITE;
  if (local->total() > kMaxMessage || (is_atomic && local->total() != kAtomicOperand)) {
    return Outcome::done(IBV_WC_LOC_LEN_ERR);
  }
  if (fetches && sender.attr.max_rd_atomic == 0) {
    return Outcome::done(IBV_WC_LOC_QP_OP_ERR);
  }
  const Outcome outcome = Exchange(sender, request).run(*local);
  if (sender.record.type == IBV_QPT_UC && outcome.kind != Outcome::Kind::Done) {
    return Outcome::done(IBV_WC_SUCCESS, static_cast<std::uint32_t>(local->total()));
  }
  return outcome;
}

}  // namespace softhca::hca
