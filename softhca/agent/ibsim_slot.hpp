// SPDX-License-Identifier: BSD-3-Clause
// One client slot of ibsim, in ibsim's own datagram protocol. A slot is attached to port 1 of a
// node; what is sent through it comes from that port, and answers to that port come back here.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "softhca/mad/mad.hpp"

namespace softhca {

/// One MAD on its way through ibsim. LIDs and QPNs in host byte order.
struct SimPacket {
  std::uint16_t dlid = 0;
  std::uint16_t slid = 0;  // 0: ibsim fills in the LID of the slot's port
  std::uint32_t dqp = 0;
  std::uint32_t sqp = 0;
  std::uint32_t status = 0;  // not 0: ibsim gives our own packet back, it could not be delivered
  std::uint64_t length = kMadSize;  // bytes of the MAD that its sender gave
  Mad mad{};
};

class SlotJournal;

/// Not thread-safe; each slot has one user.
class IbsimSlot {
 public:
  /// Makes the sockets for a slot of the ibsim whose socket base name is `base`; takes no slot yet.
  /// Slots it takes are entered in `journal`, which must outlive it. nullptr with errno:
  /// ECONNREFUSED no such ibsim.
  static std::unique_ptr<IbsimSlot> open(const std::string& base, SlotJournal* journal = nullptr);

  IbsimSlot(const IbsimSlot&) = delete;
  IbsimSlot& operator=(const IbsimSlot&) = delete;
  ~IbsimSlot();

  /// Takes a slot at node `node_id` (ibsim's node id or NodeDescription; "" is ibsim's default
  /// node). A slot held before is given back first. False with errno: ENOSPC ibsim refuses (no
  /// such node, or all 10 slots taken), ETIMEDOUT no answer, or a socket's error. `known_guid` not
  /// 0: the node's GUID, which then need not be asked for.
  bool attach(const std::string& node_id, std::uint64_t known_guid = 0);

  /// Gives the slot back.
  void detach();

  /// Sets the IsSM bit of the slot's port; while it is set, ibsim gives requests to that port
  /// (traps, SMInfo) to this slot. False with errno.
  bool set_is_sm(bool is_sm);

  [[nodiscard]] bool attached() const { return slot_.has_value(); }
  [[nodiscard]] std::uint32_t slot() const { return slot_.value_or(0); }
  /// ibsim's id of the node, at most 31 characters of it, as ibsim reported on attach.
  [[nodiscard]] const std::string& node_id() const { return node_id_; }
  /// GUID of the node this slot is attached to.
  [[nodiscard]] std::uint64_t node_guid() const { return node_guid_; }

  /// Never blocks. False with errno EAGAIN when ibsim's queue is full.
  bool send(const SimPacket& packet);

  /// Never blocks. False with errno EAGAIN when there is nothing.
  bool receive(SimPacket& packet);

  /// Readable when receive() has something.
  [[nodiscard]] int fd() const { return data_; }

 private:
  static constexpr std::size_t kControlData = 64;
  using ControlData = std::array<std::uint8_t, kControlData>;

  IbsimSlot(std::string base, SlotJournal* journal, int control, int data, std::uint32_t id)
      : base_(std::move(base)), journal_(journal), control_(control), data_(data), id_(id) {}

  bool control(std::uint32_t type, ControlData& data);

  std::string base_;
  SlotJournal* journal_;
  int control_;
  int data_;
  std::uint32_t id_;  // names our sockets; ibsim takes it for a process id
  std::optional<std::uint32_t> slot_;
  std::string peer_;  // name of ibsim's socket for the slot
  std::string node_id_;
  std::uint64_t node_guid_ = 0;
};

/// A number that is different for every run of an ibsim with this socket base name in this network
/// namespace; 0 when there is none.
std::uint64_t ibsim_instance(const std::string& base);

}  // namespace softhca
