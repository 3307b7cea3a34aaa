// SPDX-License-Identifier: BSD-3-Clause
// Layout of the file `hca` in SOFTHCA_DIR: every object that a process other than its owner has to
// see. The file is sparse: tables have their full size, rings come from an arena at the end, and
// only pages that are in use take memory. What is used together lies close together, since the
// first touch of a page, by every process anew, is dear.
//
// Everything here may be written by any process of the fabric at any time, so a reader bounds each
// index and count before it uses it.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "softhca/fabric/fabric_image.hpp"

namespace softhca::hca {

inline constexpr char kRegistryFile[] = "hca";
inline constexpr char kEventsDir[] = "events";
inline constexpr std::uint64_t kRegistryMagic = 0x736f6674'72656731;  // "softreg1"
inline constexpr std::uint32_t kRegistryVersion = 8;

// Capacities of one fabric.
inline constexpr std::uint32_t kMaxProcesses = 1024;
inline constexpr std::uint32_t kMaxQps = 32768;
inline constexpr std::uint32_t kMaxCqs = 32768;
inline constexpr std::uint32_t kMaxSrqs = 4096;
inline constexpr std::uint32_t kMaxMrs = 1U << 18;
inline constexpr std::uint32_t kMaxChannels = 8192;
inline constexpr std::uint32_t kMaxAttachments = 16384;

// A process takes slots in chunks, so that creating an object is a private matter most of the time.
inline constexpr std::uint32_t kQpChunk = 32;
inline constexpr std::uint32_t kCqChunk = 32;
inline constexpr std::uint32_t kSrqChunk = 4;
inline constexpr std::uint32_t kMrChunk = 64;
inline constexpr std::uint32_t kChannelChunk = 4;

// Rings are cut from blocks of the arena, of which each belongs to one process.
inline constexpr std::uint64_t kArenaBlock = 1U << 16;
inline constexpr std::uint32_t kArenaBlocks = 1U << 20;

// Declared limits of the device.
inline constexpr std::uint32_t kMaxWr = 8192;
inline constexpr std::uint32_t kMaxSrqWr = 16384;
inline constexpr std::uint32_t kMaxSge = 16;
inline constexpr std::uint32_t kMaxInline = 256;
inline constexpr std::uint32_t kMaxCqe = 32767;
inline constexpr std::uint32_t kCqRingSlots = 32768;
inline constexpr std::uint32_t kMaxMessage = 0x40000000;
inline constexpr std::uint32_t kMaxRdAtomic = 16;

// QPNs belong to one HCA. All HCAs start at the same one on purpose: a program that takes a QPN for
// an address without its LID must fail here as it would on hardware.
inline constexpr std::uint32_t kFirstQpn = 0x48;
inline constexpr std::uint32_t kQpnIndexSize = 32768;  // slot of QPN q is q modulo this
inline constexpr std::uint32_t kQpnMask = 0xFFFFFF;
inline constexpr std::uint32_t kMulticastQpn = 0xFFFFFF;

inline constexpr std::uint32_t kNone = 0xFFFFFFFF;

/// A spin lock that outlives its owner: high half the owner's process token, low half a number that
/// differs for every acquisition. 0 is free.
struct LockWord {
  std::atomic<std::uint64_t> value;
};

/// Whether a process moves data for those whom the kernel does not let touch its memory. It offers
/// to once it has registered memory, and takes a RelayRecord when the first of them calls.
enum class RelayState : std::uint32_t { None, Offered, Called, Serving };

/// A process that has opened a device. The token is never 0 and differs for every enrolment.
struct alignas(64) ProcessRecord {
  std::atomic<std::uint32_t> token;
  std::uint32_t pid;
  std::uint64_t start_time;  // field 22 of /proc/PID/stat, against reuse of the pid
  std::uint64_t probe;       // address in the process where it keeps `nonce`: if it is not there,
  std::uint64_t nonce;       // the process has no memory any more or has become another program
  std::atomic<std::uint64_t> relay;  // place of its RelayRecord, valid while the state is Serving
  std::atomic<RelayState> relay_state;  // a futex
};

/// Where one process asks another to copy data from or to its memory, when the kernel does not let
/// the first do it itself. A block of the arena that belongs to the second.
struct RelayRecord {
  static constexpr std::uint32_t kMaxSegments = kMaxSge + 1;
  static constexpr std::uint64_t kDataBytes = kArenaBlock - 512;
  enum class Phase : std::uint32_t { Idle, Posted, Running, Done };
  enum class Result : std::uint32_t { Ok, Fault };
  struct Segment {
    std::uint64_t address;
    std::uint64_t length;
  };

  LockWord client;  // who asks
  /// A futex: Phase in the low 2 bits, above it the number of the request, by which an answer that
  /// comes too late is known.
  std::atomic<std::uint32_t> phase;
  std::uint32_t write;  // 1: `data` to the segments, 0: the segments to `data`
  std::uint32_t count;
  std::atomic<std::uint32_t> result;
  std::array<Segment, kMaxSegments> segments;
  alignas(512) std::array<std::uint8_t, kDataBytes> data;
};
static_assert(sizeof(RelayRecord) == kArenaBlock);

enum class ChannelKind : std::uint32_t { Completion = 1, Async = 2 };

/// An event FIFO, named by slot and generation in the directory `events`.
struct alignas(32) ChannelRecord {
  std::atomic<std::uint32_t> owner;
  std::atomic<std::uint32_t> generation;
  ChannelKind kind;
  std::uint32_t hca;  // index of the HCA in the fabric image
};

/// Names a FIFO from another object's record.
struct ChannelName {
  std::uint32_t slot;
  std::uint32_t generation;
};

struct Cqe {
  std::uint64_t wr_id;
  std::uint32_t qp_slot;
  std::uint32_t qp_generation;
  std::uint32_t counter;  // queue position of the work request, which polling frees
  std::uint32_t byte_len;
  std::uint32_t imm_data;
  std::uint32_t qp_num;
  std::uint32_t src_qp;
  std::uint32_t carried;  // bytes of the message that the entry carries, CarriedData
  std::uint32_t srq;      // slot of the SRQ that the receive came from, or kNone
  std::uint16_t pkey_index;
  std::uint16_t slid;
  std::uint8_t status;
  std::uint8_t opcode;
  std::uint8_t sl;
  std::uint8_t dlid_path_bits;
  std::uint8_t wc_flags;
  std::uint8_t receive;
  std::uint8_t valid;  // 0 once its QP was reset or destroyed
  std::uint8_t solicited;
  std::uint64_t completed_at;  // CLOCK_MONOTONIC, ns, in a CQ with timestamps
};
static_assert(sizeof(Cqe) == 64);

/// A short message that lies in the completion of its receive, as adapters do it too. The owner of
/// the queue puts it where it belongs when it polls the entry, which spares the sender a system
/// call.
struct CarriedData {
  static constexpr std::uint32_t kMax = 48;
  std::uint64_t address;  // where it belongs, in the owner's memory …
  std::uint32_t lkey;     // … if the region of this key is still there
  std::uint32_t reserved;
  std::array<std::uint8_t, kMax> bytes;
};

/// A place in the ring of a CQ.
struct CqeSlot {
  Cqe entry;
  CarriedData data;  // means something if entry.carried is not 0
};
inline constexpr std::size_t kCqeStride = 128;
static_assert(sizeof(CqeSlot) == kCqeStride);

enum class Armed : std::uint32_t { No = 0, Solicited = 1, Any = 2 };

struct alignas(64) CqRecord {
  std::atomic<std::uint32_t> owner;
  std::atomic<std::uint32_t> generation;
  std::atomic<std::uint32_t> ring_size;  // power of two
  std::uint64_t ring;                    // place in the file
  std::uint32_t cqe;                     // what the program was told
  ChannelName channel;                   // slot kNone: no completion channel
  ChannelName async;
  std::atomic<std::uint32_t> overrun;
  std::atomic<std::uint32_t> armed;
  std::atomic<std::uint32_t> timestamps;  // 1: the program reads when a completion came
  alignas(64) LockWord producer;
  std::atomic<std::uint32_t> tail;
  std::uint32_t head_seen;  // by producers, who need not look at `head` while there is room
  alignas(64) std::atomic<std::uint32_t> head;
};

/// A receive work request as it lies in a ring.
struct RecvWqe {
  std::uint64_t wr_id;
  std::uint32_t num_sge;
  std::uint32_t reserved;
  std::array<ibv_sge, kMaxSge> sge;  // only num_sge of them are in the ring
};
inline constexpr std::size_t kRecvWqeHeader = offsetof(RecvWqe, sge);
constexpr std::uint64_t recv_wqe_stride(std::uint32_t max_sge) {
  return kRecvWqeHeader + max_sge * sizeof(ibv_sge);
}

/// One of the two ways between a connected QP and its peer.
struct PathRecord {
  std::uint32_t port_index;  // PortIndex, kNone: no such path
  std::uint16_t dlid;
  std::uint16_t pkey_index;
  std::uint8_t src_path_bits;
  std::uint8_t sl;
  std::uint8_t port_num;
  std::uint8_t is_global;
  std::array<std::uint8_t, 16> dgid;  // if is_global
};

/// What a peer must know of a QP, and what tells the QP from one that had the slot before.
struct alignas(64) QpRecord {
  std::atomic<std::uint32_t> owner;
  std::atomic<std::uint32_t> generation;
  std::atomic<std::uint32_t> state;  // ibv_qp_state
  std::uint32_t qpn;
  std::uint32_t hca;
  std::uint32_t type;  // ibv_qp_type
  std::uint32_t pd;    // number of the PD within its process
  std::uint32_t send_cq;
  std::uint32_t recv_cq;
  std::uint32_t srq;
  ChannelName async;
  std::uint32_t block_self_multicast;
  std::atomic<std::uint32_t> had_events;  // an asynchronous event was sent about this QP

  // What follows is guarded by `rx_lock`, the counters of the queues excepted. Between two
  // processors a cache line costs as much as a hundred instructions, so what the peer writes with
  // every message is apart from what this side reads and writes.
  alignas(64) PathRecord path;  // port_index kNone before INIT
  PathRecord alternate;
  std::atomic<std::uint32_t> migration;   // ibv_mig_state
  std::atomic<std::uint32_t> migrations;  // how often the alternate path was taken
  std::uint32_t qkey;
  std::uint32_t dest_qpn;
  std::uint32_t access;
  std::uint32_t path_mtu;
  std::uint8_t min_rnr_timer;
  std::uint8_t max_dest_rd_atomic;

  /// Held by whoever delivers into this QP or changes how that is done.
  alignas(64) LockWord rx_lock;
  std::uint32_t expected_psn;
  std::uint8_t established;  // data has arrived since RTR

  /// Counters of the queues; they only grow and wrap.
  std::atomic<std::uint32_t> rq_taken;
  alignas(64) std::atomic<std::uint32_t> rq_posted;
  std::atomic<std::uint32_t> rq_freed;
  std::atomic<std::uint32_t> sq_freed;
  std::uint64_t rq_ring;       // place in the file
  std::uint32_t rq_ring_size;  // slots, power of two, 0 when there is an SRQ
  std::uint32_t rq_max_wr;
  std::uint32_t rq_max_sge;
};

struct alignas(64) SrqRecord {
  std::atomic<std::uint32_t> owner;
  std::atomic<std::uint32_t> generation;
  std::uint64_t ring;  // place in the file
  std::uint32_t ring_size;
  std::uint32_t pd;
  std::uint32_t max_wr;
  std::uint32_t max_sge;
  ChannelName async;
  alignas(64) LockWord lock;
  std::atomic<std::uint32_t> posted;
  std::atomic<std::uint32_t> taken;
  std::atomic<std::uint32_t> in_use;  // posted and not yet polled
  std::atomic<std::uint32_t> limit;
};

/// A memory region; lkey and rkey are the same number, slot << 8 | generation byte.
struct alignas(64) MrRecord {
  std::atomic<std::uint32_t> key;  // 0: not valid
  std::atomic<std::uint32_t> owner;
  std::uint32_t pd;
  std::uint32_t access;
  std::uint64_t address;
  std::uint64_t length;
  std::uint64_t iova;
  std::uint32_t generation;
};

/// A QP attached to a multicast group.
struct alignas(64) AttachRecord {
  std::atomic<std::uint32_t> owner;  // 0: free
  std::uint32_t qp_slot;
  std::uint32_t qp_generation;
  std::uint32_t hca;
  std::uint32_t mlid;
  std::array<std::uint8_t, 16> mgid;
};

struct RegistryHeader {
  std::atomic<std::uint64_t> magic;  // set last
  std::uint32_t version;
  std::uint32_t reserved;
  std::uint64_t size;
  std::atomic<std::uint64_t> reaped_at;  // CLOCK_MONOTONIC, ns
  std::atomic<std::uint32_t> next_incarnation;
  std::atomic<std::uint32_t> attachments_top;  // no attachment lies at or above this slot
  std::atomic<std::uint32_t> channels_top;
  std::atomic<std::uint32_t> arena_top;  // blocks from here on have never been taken
  std::uint32_t reserved_too;
  LockWord attach_lock;
  LockWord atomics_lock;
  std::array<ProcessRecord, kMaxProcesses> processes;
  std::array<std::atomic<std::uint32_t>, kMaxQps / kQpChunk> qp_chunks;
  std::array<std::atomic<std::uint32_t>, kMaxCqs / kCqChunk> cq_chunks;
  std::array<std::atomic<std::uint32_t>, kMaxSrqs / kSrqChunk> srq_chunks;
  std::array<std::atomic<std::uint32_t>, kMaxMrs / kMrChunk> mr_chunks;
  std::array<std::atomic<std::uint32_t>, kMaxChannels / kChannelChunk> channel_chunks;
  std::array<std::atomic<std::uint32_t>, kArenaBlocks> arena_blocks;
  std::array<std::atomic<std::uint32_t>, kMaxHcas> next_qpn;
};

using QpnIndex = std::array<std::atomic<std::uint32_t>, kQpnIndexSize>;  // QP slot + 1

constexpr std::uint64_t page_up(std::uint64_t bytes) {
  return (bytes + 4095) & ~std::uint64_t{4095};
}

// Places in the file.
inline constexpr std::uint64_t kQpTable = page_up(sizeof(RegistryHeader));
inline constexpr std::uint64_t kCqTable = kQpTable + page_up(kMaxQps * sizeof(QpRecord));
inline constexpr std::uint64_t kSrqTable = kCqTable + page_up(kMaxCqs * sizeof(CqRecord));
inline constexpr std::uint64_t kMrTable = kSrqTable + page_up(kMaxSrqs * sizeof(SrqRecord));
inline constexpr std::uint64_t kChannelTable = kMrTable + page_up(kMaxMrs * sizeof(MrRecord));
inline constexpr std::uint64_t kAttachTable =
    kChannelTable + page_up(kMaxChannels * sizeof(ChannelRecord));
inline constexpr std::uint64_t kQpnTable =
    kAttachTable + page_up(kMaxAttachments * sizeof(AttachRecord));
inline constexpr std::uint64_t kArena = kQpnTable + page_up(kMaxHcas * sizeof(QpnIndex));
inline constexpr std::uint64_t kArenaSize = kArenaBlock * kArenaBlocks;
inline constexpr std::uint64_t kRegistrySize = kArena + kArenaSize;

static_assert(kQpnIndexSize >= kMaxQps / 2);
static_assert((std::uint64_t{kMaxMrs} << 8) <= (std::uint64_t{1} << 32));
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace softhca::hca
