// SPDX-License-Identifier: BSD-3-Clause
// What softhca's umad library and the agent say to each other. Both ends run on one machine, so
// numbers are in host order and the structures travel as they are; the agent checks every field.
//
// A client connects to SOFTHCA_DIR/agent.sock (SOCK_SEQPACKET) once for each opened port. That
// connection carries requests and their replies, one at a time. With the first request, Open, the
// client hands over one end of a second socket pair, over which MADs travel both ways; its own end
// is the file descriptor that umad_get_fd() returns. The agent does the kernel's part: agents and
// their registration, transaction ids, timeouts, retries and RMPP.
//
// A message on the data socket is a UmadHeader with its data behind it. Data longer than
// kMaxInlineData does not fit a socket's buffer; then the message is the header alone, and a
// descriptor of a file in memory that holds the data comes with it.
//
// A Command carries words in a text behind the request and is answered by text behind the reply.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace softhca {

inline constexpr char kAgentSocket[] = "agent.sock";
inline constexpr char kIssmDir[] = "issm";  // in SOFTHCA_DIR: FIFOs that stand for issm devices
inline constexpr std::uint32_t kAgentMagic = 0x73686131;  // "sha1": softhca agent, version 1
inline constexpr std::uint32_t kMaxAgentsPerPort = 32;    // per opened port, as in the kernel

inline constexpr std::size_t kMaxInlineData = 16384;
inline constexpr std::size_t kMaxUmadData = std::size_t{16} << 20;
inline constexpr std::size_t kMaxCommandText = 2048;
inline constexpr std::size_t kMaxReplyText = 65536;

enum class AgentOp : std::uint32_t {
  Open = 1,
  Register = 2,
  Unregister = 3,
  Kick = 4,
  Command = 5
};

struct AgentRequest {
  std::uint32_t magic = kAgentMagic;
  std::uint32_t op = 0;          // an AgentOp
  std::uint32_t port_index = 0;  // Open
  std::uint32_t agent_id = 0;    // Unregister
  std::uint8_t mgmt_class = 0;   // Register, from here on
  std::uint8_t class_version = 0;
  std::uint8_t rmpp_version = 0;
  std::uint8_t user_rmpp = 0;  // 1: the client does RMPP itself although rmpp_version is set
  std::uint32_t oui = 0;       // only for classes 0x30..0x4F
  std::array<std::uint64_t, 2> method_mask{};  // bit n: requests of method n are ours
};

struct AgentReply {
  std::uint32_t magic = kAgentMagic;
  std::int32_t error = 0;  // an errno value, 0 when it went well
  std::uint32_t agent_id = 0;
  std::uint32_t reserved = 0;
};

/// Header of a MAD on the data socket; the MAD follows. Same order and size as `struct
/// ib_user_mad`, which the kernel's device uses; the address fields marked BE are big-endian.
struct UmadHeader {
  std::uint32_t agent_id = 0;
  std::uint32_t status = 0;
  std::uint32_t timeout_ms = 0;
  std::uint32_t retries = 0;
  std::uint32_t length = 0;  // of header and MAD
  std::uint32_t qpn = 0;     // BE
  std::uint32_t qkey = 0;    // BE
  std::uint16_t lid = 0;     // BE
  std::uint8_t sl = 0;
  std::uint8_t path_bits = 0;
  std::uint8_t grh_present = 0;
  std::uint8_t gid_index = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t traffic_class = 0;
  std::array<std::uint8_t, 16> gid{};
  std::uint32_t flow_label = 0;  // BE
  std::uint16_t pkey_index = 0;
  std::array<std::uint8_t, 6> reserved{};
};

static_assert(sizeof(UmadHeader) == 64 && std::is_trivially_copyable_v<UmadHeader>);
static_assert(sizeof(AgentRequest) == 40 && sizeof(AgentReply) == 16);

}  // namespace softhca
