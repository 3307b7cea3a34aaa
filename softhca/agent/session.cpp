// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/agent/session.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "softhca/mad/bytes.hpp"

namespace softhca {
namespace {

constexpr std::size_t kMaxBacklog = 1024;
constexpr std::uint8_t kMaxClassVersion = 8;
constexpr std::size_t kOuiOffset = 37;  // in vendor class 2 MADs (IBTA vol 1, 16.5.3)

bool has_oui(std::uint8_t mgmt_class) {
  return mgmt_class >= kVendor2First && mgmt_class <= kVendor2Last;
}

bool same_class(const Registration& agent, std::uint8_t mgmt_class, std::uint8_t version,
                std::uint32_t oui) {
  return agent.used && agent.mgmt_class == mgmt_class && agent.class_version == version &&
         (!has_oui(mgmt_class) || agent.oui == oui);
}

}  // namespace

Session::~Session() {
  close(control_);
  if (data_ >= 0) {
    close(data_);
  }
}

void Session::open(PortIndex port, int data) {
  port_ = port;
  data_ = data;
}

void Session::deliver(const UmadHeader& header, std::span<const std::uint8_t> data) {
  UmadMessage message(header, data);
  if (!message.ok()) {
    return;  // no memory for it: lost, as on a full queue
  }
  backlog_.push_back(std::move(message));
  if (backlog_.size() > kMaxBacklog) {
    backlog_.pop_front();
  }
  flush();
}

void Session::flush() {
  while (!backlog_.empty()) {
    if (!backlog_.front().send(data_) && (errno == EAGAIN || errno == ENOBUFS)) {
      return;
    }
    // A process that has closed its end loses its messages; its session ends on its own.
    backlog_.pop_front();
  }
}

int register_agent(const Sessions& sessions, Session& session, const AgentRequest& request,
                   std::uint32_t& agent_id) {
  if (request.mgmt_class == 0 || request.class_version > kMaxClassVersion ||
      request.rmpp_version > 1 || (has_oui(request.mgmt_class) && request.oui > 0xFFFFFF)) {
    return EINVAL;
  }
  for (const auto& [id, other] : sessions) {
    if (other->port() != session.port()) {
      continue;
    }
    for (const Registration& agent : other->agents()) {
      const bool overlap = (agent.method_mask[0] & request.method_mask[0]) != 0 ||
                           (agent.method_mask[1] & request.method_mask[1]) != 0;
      if (overlap && same_class(agent, request.mgmt_class, request.class_version, request.oui)) {
        return EINVAL;
      }
    }
  }
  static std::uint32_t next_tid_high = 1;
  for (std::uint32_t slot = 0; slot < kMaxAgentsPerPort; ++slot) {
    Registration& agent = session.agents()[slot];
    if (!agent.used) {
      agent.used = true;
      agent.mgmt_class = request.mgmt_class;
      agent.class_version = request.class_version;
      agent.rmpp_version = request.rmpp_version;
      agent.user_rmpp = request.user_rmpp != 0;
      agent.oui = request.oui;
      agent.tid_high = next_tid_high++;
      agent.method_mask = request.method_mask;
      agent_id = slot;
      return 0;
    }
  }
  return ENOMEM;
}

std::optional<AgentRef> find_agent_of_tid(const Sessions& sessions, PortIndex port,
                                          std::uint64_t tid) {
  const auto high = static_cast<std::uint32_t>(tid >> 32);
  for (const auto& [id, session] : sessions) {
    if (session->port() != port) {
      continue;
    }
    for (std::uint32_t slot = 0; slot < kMaxAgentsPerPort; ++slot) {
      const Registration& agent = session->agents()[slot];
      if (agent.used && agent.tid_high == high) {
        return AgentRef{session.get(), slot};
      }
    }
  }
  return std::nullopt;
}

std::optional<AgentRef> find_agent(const Sessions& sessions, PortIndex port,
                                   const MadHeader& header, std::span<const std::uint8_t> mad) {
  const std::uint32_t oui = has_oui(header.mgmt_class) && mad.size() >= kOuiOffset + 3
                                ? get32(mad, kOuiOffset - 1) & 0xFFFFFF
                                : 0;
  for (const auto& [id, session] : sessions) {
    if (session->port() != port) {
      continue;
    }
    for (std::uint32_t slot = 0; slot < kMaxAgentsPerPort; ++slot) {
      const Registration& agent = session->agents()[slot];
      if (same_class(agent, header.mgmt_class, header.class_version, oui) &&
          agent.wants(header.method)) {
        return AgentRef{session.get(), slot};
      }
    }
  }
  return std::nullopt;
}

}  // namespace softhca
