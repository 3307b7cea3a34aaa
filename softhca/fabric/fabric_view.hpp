// SPDX-License-Identifier: BSD-3-Clause
// The read side of the fabric image: who is there, what state are the ports in, and where does a
// packet go. Lock-free; a reader never waits for the writer and never writes to the file.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "softhca/fabric/fabric_image.hpp"

namespace softhca {

/// A GID in wire order: 8 bytes of subnet prefix, 8 bytes of interface id.
using Gid = std::array<std::uint8_t, 16>;

/// One HCA as an emulated device.
struct HcaInfo {
  std::string name;  // "softhcaN", numbered per host by ascending node GUID
  std::string host;  // first word of the NodeDescription
  std::string description;
  std::uint64_t node_guid = 0;
  std::uint64_t system_image_guid = 0;
  std::uint32_t vendor_id = 0;
  std::uint32_t device_id = 0;
  std::uint32_t revision = 0;
  std::uint32_t pkey_table_size = 0;
  std::vector<PortIndex> ports;  // ports[0] is port number 1
};

/// Attributes of one HCA port. It is a PortRecord (host byte order, see there for the codes); the
/// first `gid_count` GIDs and `pkey_count` P_Keys are the tables, 0 in a P_Key slot is unused.
struct PortAttr : PortRecord {
  [[nodiscard]] bool active() const { return present != 0 && state == kPortActive; }
  /// True when `dlid` is one of the 2^LMC LIDs of this port.
  [[nodiscard]] bool owns_lid(std::uint16_t dlid) const {
    return lid != 0 && dlid >= lid && dlid < lid + (1U << lmc);
  }
};

/// What the data path asks of a port, small enough to be read for every packet.
struct PortBrief {
  std::uint64_t node_guid = 0;
  std::uint64_t subnet_prefix = 0;
  std::uint64_t port_guid = 0;
  std::uint16_t lid = 0;
  std::uint8_t lmc = 0;
  std::uint8_t state = 0;
  std::uint8_t active_mtu = 0;
  bool present = false;
};

/// Thread rule: all methods may be called from any thread at once.
class FabricView {
 public:
  /// Maps SOFTHCA_DIR/fabric read-only. nullptr with errno: ENOENT no such file, ENODEV no writer
  /// holds the fabric (the agent is not running), EAGAIN the first sweep is not finished,
  /// EPROTO not a fabric file of this version, or what open and mmap say.
  static std::unique_ptr<FabricView> attach(const char* dir);

  FabricView(const FabricView&) = delete;
  FabricView& operator=(const FabricView&) = delete;
  ~FabricView();

  /// Changes whenever anything in the image changed. One load; poll it as often as you like.
  [[nodiscard]] std::uint64_t generation() const;

  /// False when the agent has ended; the image then stays as it was.
  [[nodiscard]] bool writer_alive() const;

  /// Present HCAs whose NodeDescription starts with the word `host`, sorted by node GUID.
  [[nodiscard]] std::vector<HcaInfo> hcas_of(std::string_view host) const;

  /// All present HCAs, sorted by host name and node GUID.
  [[nodiscard]] std::vector<HcaInfo> all_hcas() const;

  /// All of a port's attributes (about 900 bytes). An index out of range gives `present == 0`.
  [[nodiscard]] PortAttr port(PortIndex index) const;

  /// The part of them the data path needs.
  [[nodiscard]] PortBrief brief(PortIndex index) const;

  /// Number of port slots in use; indexes run from 0 to this, absent ports included.
  [[nodiscard]] std::uint32_t port_count() const;

  /// The port a unicast packet sent at `from` reaches, by walking the LFTs. Loopback to a LID of
  /// `from` itself included. nullopt: no route, a link on the way is not ACTIVE at both ends, the
  /// walk loops, or it ends at a port that does not own `dlid` or at a switch.
  [[nodiscard]] std::optional<PortIndex> unicast(PortIndex from, std::uint16_t dlid) const;

  /// The ports a multicast packet sent at `from` reaches, by walking the MFTs from the sender's
  /// switch, never back out of the port it came in by. `from` itself is in the result when the
  /// first switch's MFT entry names the sender's port: hardware delivers such a packet to the
  /// other queue pairs of the sending port. `out` is cleared first; sorted, no duplicates.
  void multicast(PortIndex from, std::uint16_t mlid, std::vector<PortIndex>& out) const;

  /// LFT and MFT of a switch for display; empty when there is no such switch.
  struct SwitchInfo {
    std::string description;
    std::uint64_t node_guid = 0;
    std::uint16_t lid = 0;
    std::uint32_t port_count = 0;
    std::uint32_t lft_top = 0;
    std::uint32_t mlids_in_use = 0;
  };
  [[nodiscard]] std::vector<SwitchInfo> switches() const;

 private:
  FabricView(int fd, const FabricFile* file) : fd_(fd), file_(file) {}

  template <typename Body>
  bool read(Body&& body) const;

  int fd_;
  const FabricFile* file_;
};

}  // namespace softhca
