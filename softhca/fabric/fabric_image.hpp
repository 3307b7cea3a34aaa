// SPDX-License-Identifier: BSD-3-Clause
// Layout of the file `fabric` in SOFTHCA_DIR: what the fabric looks like now, as the agent's last
// sweep saw it. One writer (the agent, or a StaticFabric in tests), any number of readers.
//
// The file holds two complete images. The writer fills the one that is not active and then makes
// it the active one, so a writer that dies half way through leaves the other image whole. Each
// image carries a sequence number, odd while it is being written, by which a reader notices that
// it was overtaken. The file is sparse: only pages that are in use take memory.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace softhca {

inline constexpr char kFabricFile[] = "fabric";
inline constexpr std::uint64_t kFabricMagic = 0x736f6674'68636131;  // "softhca1"
inline constexpr std::uint32_t kFabricVersion = 1;

inline constexpr std::uint32_t kMaxHcas = 2048;
inline constexpr std::uint32_t kMaxHcaPorts = 4096;
inline constexpr std::uint32_t kMaxSwitches = 256;
inline constexpr std::uint32_t kMaxPortsPerSwitch = 256;  // port 0 (management) included
inline constexpr std::uint32_t kLftEntries = 0xC000;      // all unicast LIDs
inline constexpr std::uint32_t kMftEntries = 1024;        // MLIDs 0xC000..0xC3FF
inline constexpr std::uint16_t kFirstMlid = 0xC000;
inline constexpr std::uint32_t kMaxPortsPerHca = 8;
inline constexpr std::uint32_t kMaxGids = 32;
inline constexpr std::uint32_t kMaxPkeys = 128;
inline constexpr std::uint8_t kLftNoPort = 0xFF;

/// Index of an HCA port in the image. It stays the same for a port as long as the fabric's
/// directory lives, also when the agent is restarted or the port disappears for a time.
using PortIndex = std::uint32_t;
inline constexpr PortIndex kNoPort = 0xFFFFFFFF;

/// Port states and physical states as in PortInfo (IBTA vol 1 table 148).
inline constexpr std::uint8_t kPortDown = 1;
inline constexpr std::uint8_t kPortInit = 2;
inline constexpr std::uint8_t kPortArmed = 3;
inline constexpr std::uint8_t kPortActive = 4;
inline constexpr std::uint8_t kPhysPolling = 2;
inline constexpr std::uint8_t kPhysLinkUp = 5;

enum class LinkKind : std::uint32_t { None = 0, HcaPort = 1, SwitchPort = 2 };

/// The other end of a cable. `index` is a PortIndex for HcaPort, a switch index for SwitchPort;
/// `port` is the port number there.
struct alignas(8) LinkRecord {
  LinkKind kind = LinkKind::None;
  std::uint32_t index = 0;
  std::uint32_t port = 0;
  std::uint32_t reserved = 0;

  bool operator==(const LinkRecord&) const = default;
};

/// One HCA. All numbers are in host byte order; GUIDs too.
struct HcaRecord {
  std::uint64_t node_guid = 0;
  std::uint64_t system_image_guid = 0;
  std::uint32_t vendor_id = 0;
  std::uint32_t device_id = 0;
  std::uint32_t revision = 0;
  std::uint32_t port_count = 0;
  std::uint32_t present = 0;        // 0: was seen earlier, the last sweep did not reach it
  std::uint32_t partition_cap = 0;  // P_Key table size
  std::array<std::uint32_t, kMaxPortsPerHca> ports{};  // PortIndex of port 1, 2, …
  std::array<char, 64> description{};                  // NodeDescription, NUL padded

  bool operator==(const HcaRecord&) const = default;
};

/// One HCA port, its PortInfo decoded. All numbers in host byte order.
struct PortRecord {
  std::uint64_t node_guid = 0;
  std::uint64_t port_guid = 0;
  std::uint64_t subnet_prefix = 0;
  std::uint64_t m_key = 0;
  std::uint32_t cap_mask = 0;
  std::uint32_t hca_index = 0;
  std::uint16_t lid = 0;
  std::uint16_t sm_lid = 0;
  std::uint16_t cap_mask2 = 0;
  std::uint16_t pkey_count = 0;
  std::uint16_t gid_count = 0;
  std::uint16_t pkey_violations = 0;
  std::uint16_t qkey_violations = 0;
  std::uint16_t present = 0;
  std::uint8_t port_num = 0;
  std::uint8_t state = kPortDown;
  std::uint8_t phys_state = kPhysPolling;
  std::uint8_t lmc = 0;
  std::uint8_t sm_sl = 0;
  std::uint8_t active_mtu = 0;        // code: 1=256 … 5=4096
  std::uint8_t max_mtu = 0;           // code
  std::uint8_t active_width = 0;      // code: 1=1x 2=4x 4=8x 8=12x 16=2x
  std::uint8_t active_speed = 0;      // code: 1=SDR 2=DDR 4=QDR
  std::uint8_t active_speed_ext = 0;  // code: 0=none 1=FDR 2=EDR 4=HDR 8=NDR
  std::uint8_t subnet_timeout = 0;
  std::uint8_t vl_cap = 0;  // PortInfo VLCap code
  std::uint8_t init_type_reply = 0;
  std::uint8_t client_reregister = 0;
  std::uint8_t reserved[2] = {};
  LinkRecord link;
  std::array<std::array<std::uint8_t, 16>, kMaxGids> gids{};  // network order, as on the wire
  std::array<std::uint16_t, kMaxPkeys> pkeys{};

  bool operator==(const PortRecord&) const = default;
};

struct SwitchRecord {
  std::uint64_t node_guid = 0;
  std::uint32_t port_count = 0;  // external ports; ports are numbered 1..port_count
  std::uint32_t lft_top = 0;     // entries above this LID are not valid
  std::uint32_t mft_count = 0;   // valid MFT entries; MLIDs from here on go nowhere
  std::uint32_t present = 0;
  std::uint16_t lid = 0;  // of port 0
  std::uint16_t reserved[3] = {};
  std::array<char, 64> description{};

  bool operator==(const SwitchRecord&) const = default;
};

struct alignas(8) SwitchPortRecord {
  LinkRecord link;
  std::uint8_t state = kPortDown;
  std::uint8_t phys_state = kPhysPolling;
  std::uint8_t reserved[6] = {};

  bool operator==(const SwitchPortRecord&) const = default;
};

/// Ports to which a switch forwards a MLID; bit p of word p/64 is port p.
using PortMask = std::array<std::uint64_t, kMaxPortsPerSwitch / 64>;

struct FabricImage {
  std::atomic<std::uint64_t> sequence;  // odd while being written
  std::uint64_t generation;
  std::uint32_t hca_count;
  std::uint32_t port_count;
  std::uint32_t switch_count;
  std::uint32_t reserved;
  std::array<HcaRecord, kMaxHcas> hcas;
  std::array<PortRecord, kMaxHcaPorts> ports;
  std::array<SwitchRecord, kMaxSwitches> switches;
  std::array<std::array<SwitchPortRecord, kMaxPortsPerSwitch>, kMaxSwitches> switch_ports;
  std::array<std::array<std::uint8_t, kLftEntries>, kMaxSwitches> lfts;
  std::array<std::array<PortMask, kMftEntries>, kMaxSwitches> mfts;
};

struct FabricFile {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t writer_pid;  // for people; liveness is told by the file lock
  std::uint64_t size;
  std::atomic<std::uint64_t> generation;  // 0: nothing published yet
  std::atomic<std::uint32_t> active;      // 0 or 1
  std::uint32_t reserved;
  alignas(4096) std::array<FabricImage, 2> images;
};

static_assert(std::is_standard_layout_v<HcaRecord> && sizeof(HcaRecord) % 8 == 0);
static_assert(std::is_standard_layout_v<PortRecord> && sizeof(PortRecord) % 8 == 0);
static_assert(std::is_standard_layout_v<SwitchRecord> && sizeof(SwitchRecord) % 8 == 0);
static_assert(std::is_standard_layout_v<SwitchPortRecord> && sizeof(SwitchPortRecord) % 8 == 0);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace softhca
