// SPDX-License-Identifier: BSD-3-Clause
#include "umad/sa_client.hpp"

#include <cerrno>
#include <utility>

namespace wireup::umad {
namespace {

/// The kernel hands a request back when its time is over; this much later we stop waiting for that.
constexpr Duration kGrace = std::chrono::milliseconds(500);

const char* attribute_name(std::uint16_t attribute) noexcept {
  return attribute == mad::kAttributeMcMemberRecord ? "join of a multicast group" : "path query";
}

long long milliseconds(Duration duration) noexcept {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

}  // namespace

Result<SaClient> SaClient::open(const Options& options, const Ops& ops) {
  Port::Options port_options;
  port_options.device = options.device;
  port_options.port = options.port;
  port_options.mgmt_class = mad::MgmtClass::SubnAdm;
  port_options.class_version = mad::kSaClassVersion;
  auto port = Port::open(port_options, ops);
  if (!port) {
    return fail(port.error());
  }
  return SaClient(options, std::move(*port));
}

SaClient::SaClient(const Options& options, Port port) noexcept
    : options_(options), port_(std::move(port)) {}

SaRequestId SaClient::join(const mad::McMemberRecord& record, std::uint64_t component_mask,
                           Instant now) {
  return start(mad::make_sa_request(mad::Method::Set, Tid(), record, component_mask), now);
}

SaRequestId SaClient::query_path(const mad::PathRecord& record, std::uint64_t component_mask,
                                 Instant now) {
  return start(mad::make_sa_request(mad::Method::Get, Tid(), record, component_mask), now);
}

SaRequestId SaClient::start(mad::SaMad sa, Instant now) {
  while (next_id_ == 0 || requests_.contains(next_id_)) {
    ++next_id_;
  }
  const SaRequestId id = next_id_++;
  sa.header.tid = Tid(id);
  Request request;
  request.sa = sa;
  request.timeout = options_.timeout;
  request.started = now;
  send(requests_.emplace(id, request).first, now);
  return id;
}

void SaClient::send(Requests::iterator at, Instant now) {
  Request& request = at->second;
  mad::Mad bytes;
  mad::serialize(request.sa, bytes);
  if (auto sent = port_.send(options_.sm, bytes, request.timeout); !sent) {
    finish(at, fail(sent.error()));
    return;
  }
  ++request.tries;
  request.is_sent = true;
  request.due = now + request.timeout + kGrace;
  request.timeout *= 2;
}

void SaClient::progress(Instant now) {
  // As many as could be pending: a flood of other MADs must not hold us here.
  for (std::size_t left = requests_.size() + 16; left > 0; --left) {
    const auto received = port_.receive();
    if (!received) {
      while (!requests_.empty()) {
        finish(requests_.begin(), fail(received.error()));
      }
      return;
    }
    if (!received->has_value()) {
      break;
    }
    handle(**received, now);
  }
  for (auto at = requests_.begin(); at != requests_.end();) {
    const auto here = at++;
    if (here->second.due > now) {
      continue;
    }
    if (here->second.is_sent) {
      again(here, now, now);
    } else {
      send(here, now);
    }
  }
}

void SaClient::handle(const ReceivedMad& received, Instant now) {
  const auto sa = mad::parse_sa_mad(std::span(received.bytes).first(received.size));
  if (!sa) {
    return;
  }
  const auto at = requests_.find(static_cast<SaRequestId>(sa->header.tid.value() & 0xFFFFFFFFU));
  if (at == requests_.end() || !at->second.is_sent) {
    return;
  }
  if (received.status == ETIMEDOUT) {
    again(at, now, now);
    return;
  }
  if (received.status != 0) {
    finish(at, fail(Error::system(
                   Errc::NoDevice, received.status, "%s: sending it from %s port %u to SM LID %u",
                   attribute_name(at->second.sa.header.attribute_id), options_.device.c_str(),
                   options_.port, options_.sm.lid.value())));
    return;
  }
  handle_answer(at, *sa, now);
}

void SaClient::handle_answer(Requests::iterator at, const mad::SaMad& answer, Instant now) {
  const mad::SaMad& asked = at->second.sa;
  if (answer.header.method != static_cast<std::uint8_t>(mad::Method::GetResp) ||
      answer.header.attribute_id != asked.header.attribute_id) {
    return;
  }
  const std::uint16_t status = answer.header.status;
  if ((status & mad::kStatusBusy) != 0 && status >> 8U == 0) {
    again(at, now + at->second.timeout / 2, now);
    return;
  }
  if (status != 0) {
    finish(at, fail(Error::make(
                   Errc::Rejected, "%s on %s port %u: SM LID %u answers status 0x%04x: %s",
                   attribute_name(asked.header.attribute_id), options_.device.c_str(),
                   options_.port, options_.sm.lid.value(), status, mad::sa_status_text(status))));
    return;
  }
  if (answer.header.attribute_id == mad::kAttributeMcMemberRecord) {
    const auto record = mad::sa_mc_member_record(answer);
    if (record) {
      finish(at, *record);
    } else {
      finish(at, fail(record.error()));
    }
    return;
  }
  const auto record = mad::sa_path_record(answer);
  if (record) {
    finish(at, *record);
  } else {
    finish(at, fail(record.error()));
  }
}

/// Another try at `at_time`, or the end when there were enough.
void SaClient::again(Requests::iterator at, Instant at_time, Instant now) {
  Request& request = at->second;
  if (request.tries >= options_.tries) {
    finish(at, fail(Error::make(Errc::Timeout,
                                "%s on %s port %u: SM LID %u did not answer %u tries in %lld ms "
                                "(is the subnet manager running?)",
                                attribute_name(request.sa.header.attribute_id),
                                options_.device.c_str(), options_.port, options_.sm.lid.value(),
                                request.tries, milliseconds(now - request.started))));
    return;
  }
  if (at_time <= now) {
    send(at, now);
    return;
  }
  request.is_sent = false;
  request.due = at_time;
}

void SaClient::finish(Requests::iterator at,
                      const Result<std::variant<mad::McMemberRecord, mad::PathRecord>>& record) {
  replies_.push_back(SaReply{at->first, record});
  requests_.erase(at);
}

std::optional<SaReply> SaClient::poll_reply() {
  if (replies_.empty()) {
    return std::nullopt;
  }
  const SaReply reply = replies_.front();
  replies_.pop_front();
  return reply;
}

std::optional<Instant> SaClient::poll_timeout() const {
  std::optional<Instant> earliest;
  for (const auto& [id, request] : requests_) {
    if (!earliest.has_value() || request.due < *earliest) {
      earliest = request.due;
    }
  }
  return earliest;
}

}  // namespace wireup::umad
