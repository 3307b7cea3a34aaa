// SPDX-License-Identifier: BSD-3-Clause
#include "acm/driver/endpoint_identity.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace wireup::acm {
namespace {

/// How long a table answers questions. One that does not have what is looked for is asked for
/// again, but a subnet of ten thousand ports not more often than this for it.
constexpr Duration kTableLife = std::chrono::seconds(5);

}  // namespace

std::string_view identity_source_name(IdentitySource source) noexcept {
  constexpr std::array<std::string_view, 5> kNames = {"itself", "hosts file", "neighbour table",
                                                      "node description", "service record"};
  const auto number = static_cast<std::size_t>(source);
  return number < kNames.size() ? kNames[number] : "unknown";
}

EndpointIdentity::EndpointIdentity(Options options) noexcept : options_(std::move(options)) {}

bool EndpointIdentity::is_waiting(const mad::AcmAddress& address) const noexcept {
  const auto has = [&address](const std::vector<mad::AcmAddress>& waiting) {
    return std::find(waiting.begin(), waiting.end(), address) != waiting.end();
  };
  return has(nodes_.waiting) || has(services_.waiting);
}

void EndpointIdentity::ask(const mad::AcmAddress& address, Instant now) {
  if (is_waiting(address)) {
    return;
  }
  if (options_.neighbours.has_value()) {
    // A table that cannot be read is one that does not know.
    const auto gid = options_.neighbours->find(address, now);
    if (gid && gid->has_value()) {
      answer(address, *gid, IdentitySource::NeighbourTable);
      return;
    }
  }
  if (!options_.has_tables) {
    answer_unknown(address);
  } else if (address.type() == mad::AcmAddressType::Name) {
    look_at_nodes(address, now);
  } else {
    look_at_services(address, now);
  }
}

/// False: the table is here, or cannot be had.
template <typename Row>
bool EndpointIdentity::wait_for(Kept<Row>& kept, Table table, const mad::AcmAddress& address,
                                Instant now) {
  if (kept.at.has_value() && now - *kept.at < kTableLife) {
    return false;
  }
  kept.waiting.push_back(address);
  if (!kept.is_asked) {
    kept.is_asked = true;
    tables_.push_back(table);
  }
  return true;
}

void EndpointIdentity::look_at_nodes(const mad::AcmAddress& address, Instant now) {
  if (wait_for(nodes_, Table::Nodes, address, now)) {
    return;
  }
  const auto gid = match_description(value_text(address), nodes_.rows);
  if (gid && !gid->has_value()) {
    look_at_services(address, now);
  } else {
    answer(address, gid, IdentitySource::NodeDescription);
  }
}

void EndpointIdentity::look_at_services(const mad::AcmAddress& address, Instant now) {
  if (wait_for(services_, Table::Services, address, now)) {
    return;
  }
  const auto gid = match_service(address, options_.pkey, services_.rows);
  if (gid && !gid->has_value()) {
    answer_unknown(address);
  } else {
    answer(address, gid, IdentitySource::ServiceRecord);
  }
}

/// Who waited for it.
template <typename Row>
std::vector<mad::AcmAddress> EndpointIdentity::take_table(Kept<Row>& kept,
                                                          const Result<std::vector<Row>>& rows,
                                                          Instant now) {
  kept.is_asked = false;
  kept.at = now;
  kept.error.reset();
  kept.rows.clear();
  if (rows) {
    kept.rows = *rows;
  } else if (!rows.error().is(Errc::Rejected)) {
    // "No records" is an answer like others.
    kept.error = rows.error();
  }
  return std::exchange(kept.waiting, {});
}

void EndpointIdentity::handle_nodes(const Result<std::vector<DescribedPort>>& ports, Instant now) {
  for (const mad::AcmAddress& address : take_table(nodes_, ports, now)) {
    look_at_nodes(address, now);
  }
}

void EndpointIdentity::handle_services(const Result<std::vector<RegisteredService>>& services,
                                       Instant now) {
  for (const mad::AcmAddress& address : take_table(services_, services, now)) {
    look_at_services(address, now);
  }
}

void EndpointIdentity::forget() {
  nodes_.at.reset();
  services_.at.reset();
}

std::optional<EndpointIdentity::Table> EndpointIdentity::poll_table() {
  if (tables_.empty()) {
    return std::nullopt;
  }
  const Table table = tables_.front();
  tables_.pop_front();
  return table;
}

std::optional<EndpointIdentity::Answer> EndpointIdentity::poll_answer() {
  if (answers_.empty()) {
    return std::nullopt;
  }
  const Answer answer = answers_.front();
  answers_.pop_front();
  return answer;
}

void EndpointIdentity::answer(const mad::AcmAddress& address, const Result<std::optional<Gid>>& gid,
                              IdentitySource source) {
  if (gid) {
    answers_.push_back({address, Identity{**gid, source}});
  } else {
    answers_.push_back({address, fail(gid.error())});
  }
}

void EndpointIdentity::answer_unknown(const mad::AcmAddress& address) {
  for (const auto& error : {nodes_.error, services_.error}) {
    if (error.has_value()) {
      answers_.push_back({address, fail(*error)});
      return;
    }
  }
  answers_.push_back({address, fail(Error::make(Errc::NotFound, "nobody knows which port has %s",
                                                to_text(address).c_str()))});
}

}  // namespace wireup::acm
