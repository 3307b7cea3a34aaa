// SPDX-License-Identifier: BSD-3-Clause
#include "umad/sa_client.hpp"

#include <cerrno>
#include <utility>

namespace wireup::umad {
namespace {

/// The kernel hands a request back when its time is over; this much later we stop waiting for that.
constexpr Duration kGrace = std::chrono::milliseconds(500);

const char* name_of(const mad::SaMad& request) noexcept {
  switch (request.header.attribute_id) {
    case mad::kAttributeMcMemberRecord:
      return "join of a multicast group";
    case mad::kAttributeNodeRecord:
      return "query of nodes";
    case mad::kAttributeServiceRecord:
      return "query of services";
    default:
      break;
  }
  return request.header.method == static_cast<std::uint8_t>(mad::Method::GetTable)
             ? "query of all paths"
             : "path query";
}

/// The one method that answers.
mad::Method answer_to(const mad::SaMad& request) noexcept {
  return request.header.method == static_cast<std::uint8_t>(mad::Method::GetTable)
             ? mad::Method::GetTableResp
             : mad::Method::GetResp;
}

template <typename Record>
Result<SaRecord> as_record(Result<Record> record) {
  if (!record) {
    return fail(record.error());
  }
  return SaRecord(std::move(*record));
}

/// What a good answer holds.
Result<SaRecord> record_of(std::span<const std::uint8_t> bytes, const mad::SaMad& asked) {
  if (answer_to(asked) == mad::Method::GetTableResp) {
    const auto table = mad::parse_sa_table(bytes);
    if (!table) {
      return fail(table.error());
    }
    switch (asked.header.attribute_id) {
      case mad::kAttributeNodeRecord:
        return as_record(mad::sa_node_records(*table));
      case mad::kAttributeServiceRecord:
        return as_record(mad::sa_service_records(*table));
      default:
        return as_record(mad::sa_path_records(*table));
    }
  }
  const auto answer = mad::parse_sa_mad(bytes);
  if (!answer) {
    return fail(answer.error());
  }
  return asked.header.attribute_id == mad::kAttributeMcMemberRecord
             ? as_record(mad::sa_mc_member_record(*answer))
             : as_record(mad::sa_path_record(*answer));
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
  port_options.largest = options.largest_table;
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
  return start(mad::make_sa_request(mad::Method::Set, Tid(), record, component_mask),
               options_.tries, options_.timeout, now);
}

SaRequestId SaClient::query_path(const mad::PathRecord& record, std::uint64_t component_mask,
                                 Instant now, unsigned tries) {
  return start(mad::make_sa_request(mad::Method::Get, Tid(), record, component_mask),
               tries == 0 ? options_.tries : tries, options_.timeout, now);
}

SaRequestId SaClient::query_paths(const mad::PathRecord& record, std::uint64_t component_mask,
                                  Instant now) {
  return start_table(mad::make_sa_request(mad::Method::GetTable, Tid(), record, component_mask),
                     now);
}

SaRequestId SaClient::query_nodes(const mad::NodeRecord& record, std::uint64_t component_mask,
                                  Instant now) {
  return start_table(mad::make_sa_request(mad::Method::GetTable, Tid(), record, component_mask),
                     now);
}

SaRequestId SaClient::query_services(const mad::ServiceRecord& record, std::uint64_t component_mask,
                                     Instant now) {
  return start_table(mad::make_sa_request(mad::Method::GetTable, Tid(), record, component_mask),
                     now);
}

SaRequestId SaClient::start_table(const mad::SaMad& sa, Instant now) {
  return start(sa, 1, options_.table_timeout, now);
}

SaRequestId SaClient::start(mad::SaMad sa, unsigned tries, Duration timeout, Instant now) {
  while (next_id_ == 0 || requests_.contains(next_id_)) {
    ++next_id_;
  }
  const SaRequestId id = next_id_++;
  sa.header.tid = Tid(id);
  Request request;
  request.sa = sa;
  request.most_tries = tries;
  request.timeout = timeout;
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
  request.is_busy = false;
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
  const auto header = mad::parse_sa_table(received.bytes);
  if (!header) {
    return;
  }
  const auto at =
      requests_.find(static_cast<SaRequestId>(header->header.tid.value() & 0xFFFFFFFFU));
  if (at == requests_.end() || !at->second.is_sent) {
    return;
  }
  if (received.status == ETIMEDOUT) {
    again(at, now, now);
    return;
  }
  if (received.status == EMSGSIZE) {
    finish(at, fail(Error::make(Errc::NoResources,
                                "%s on %s port %u: the answer of SM LID %u is longer than the "
                                "limit of %zu bytes",
                                name_of(at->second.sa), options_.device.c_str(), options_.port,
                                options_.sm.lid.value(), options_.largest_table)));
    return;
  }
  if (received.status != 0) {
    finish(at,
           fail(Error::system(Errc::NoDevice, received.status,
                              "%s: sending it from %s port %u to SM LID %u", name_of(at->second.sa),
                              options_.device.c_str(), options_.port, options_.sm.lid.value())));
    return;
  }
  handle_answer(at, received.bytes, now);
}

void SaClient::handle_answer(Requests::iterator at, std::span<const std::uint8_t> bytes,
                             Instant now) {
  const mad::SaMad& asked = at->second.sa;
  const mad::Header header = mad::parse_sa_table(bytes)->header;
  const bool is_whole = answer_to(asked) == mad::Method::GetTableResp
                            ? bytes.size() >= mad::SaMad::kDataOffset
                            : bytes.size() == mad::kMadSize;
  if (header.method != static_cast<std::uint8_t>(answer_to(asked)) ||
      header.attribute_id != asked.header.attribute_id || !is_whole) {
    return;
  }
  const std::uint16_t status = header.status;
  if ((status & mad::kStatusBusy) != 0 && status >> 8U == 0) {
    at->second.is_busy = true;
    again(at, now + at->second.timeout / 2, now);
    return;
  }
  if (status != 0) {
    finish(at,
           fail(Error::make(Errc::Rejected, "%s on %s port %u: SM LID %u answers status 0x%04x: %s",
                            name_of(asked), options_.device.c_str(), options_.port,
                            options_.sm.lid.value(), status, mad::sa_status_text(status))));
    return;
  }
  finish(at, record_of(bytes, asked));
}

/// Another try at `at_time`, or the end when there were enough.
void SaClient::again(Requests::iterator at, Instant at_time, Instant now) {
  Request& request = at->second;
  if (request.tries >= request.most_tries && request.is_busy) {
    finish(at, fail(Error::make(Errc::Busy,
                                "%s on %s port %u: SM LID %u is busy, as it says to %u tries in "
                                "%lld ms",
                                name_of(request.sa), options_.device.c_str(), options_.port,
                                options_.sm.lid.value(), request.tries,
                                milliseconds(now - request.started))));
    return;
  }
  if (request.tries >= request.most_tries) {
    finish(at, fail(Error::make(Errc::Timeout,
                                "%s on %s port %u: SM LID %u did not answer %u tries in %lld ms "
                                "(is the subnet manager running?)",
                                name_of(request.sa), options_.device.c_str(), options_.port,
                                options_.sm.lid.value(), request.tries,
                                milliseconds(now - request.started))));
    return;
  }
  if (at_time <= now) {
    send(at, now);
    return;
  }
  request.is_sent = false;
  request.due = at_time;
}

void SaClient::finish(Requests::iterator at, Result<SaRecord> record) {
  replies_.push_back(SaReply{at->first, std::move(record)});
  requests_.erase(at);
}

std::optional<SaReply> SaClient::poll_reply() {
  if (replies_.empty()) {
    return std::nullopt;
  }
  SaReply reply = std::move(replies_.front());
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
