// SPDX-License-Identifier: BSD-3-Clause
#include "cm/driver/kernel_links.hpp"

namespace wireup::cm {

const char* awaited(LinkPhase phase) noexcept {
  switch (phase) {
    case LinkPhase::Address:
      return "the address";
    case LinkPhase::Route:
      return "the route";
    case LinkPhase::Request:
      return "the REP";
    case LinkPhase::Answered:
      return "our RTU";
    case LinkPhase::Offered:
      return "our REP";
    case LinkPhase::Reply:
      return "the RTU";
    case LinkPhase::Established:
      return "nothing";
    case LinkPhase::Leaving:
      return "the DREP";
    case LinkPhase::Left:
      return "our DREP";
    case LinkPhase::Resting:
      return "the end of TIMEWAIT";
  }
  return "nothing";
}

Link& LinkTable::add(rdmacm::IdNumber id, LinkPhase phase) {
  Link& link = links_[id];
  link.id = id;
  link.phase = phase;
  return link;
}

void LinkTable::remove(rdmacm::IdNumber id) {
  const auto at = links_.find(id);
  if (at == links_.end()) {
    return;
  }
  set_deadline(at->second, std::nullopt);
  if (!at->second.ours.is_zero()) {
    by_ours_.erase(at->second.ours);
  }
  if (!at->second.theirs.is_zero()) {
    by_theirs_.erase(at->second.theirs);
  }
  links_.erase(at);
}

Link* LinkTable::find(rdmacm::IdNumber id) {
  const auto at = links_.find(id);
  return at == links_.end() ? nullptr : &at->second;
}

Link* LinkTable::find_ours(CommId id) {
  const auto at = by_ours_.find(id);
  return at == by_ours_.end() ? nullptr : find(at->second);
}

Link* LinkTable::find_theirs(CommId id) {
  const auto at = by_theirs_.find(id);
  return at == by_theirs_.end() ? nullptr : find(at->second);
}

void LinkTable::name_ours(Link& link, CommId id) {
  if (link.ours.is_zero() && !id.is_zero() && by_ours_.emplace(id, link.id).second) {
    link.ours = id;
  }
}

void LinkTable::name_theirs(Link& link) {
  CommId name;
  do {
    name = CommId(++last_name_);
  } while (name.is_zero() || by_theirs_.contains(name));
  link.theirs = name;
  by_theirs_.emplace(name, link.id);
}

void LinkTable::set_deadline(Link& link, std::optional<Instant> deadline) {
  if (link.deadline.has_value()) {
    deadlines_.erase({*link.deadline, link.id});
  }
  if (deadline.has_value()) {
    deadlines_.emplace(*deadline, link.id);
  }
  link.deadline = deadline;
}

std::optional<Instant> LinkTable::next_deadline() const noexcept {
  if (deadlines_.empty()) {
    return std::nullopt;
  }
  return deadlines_.begin()->first;
}

Link* LinkTable::due(Instant now) {
  if (deadlines_.empty() || deadlines_.begin()->first > now) {
    return nullptr;
  }
  return find(deadlines_.begin()->second);
}

}  // namespace wireup::cm
