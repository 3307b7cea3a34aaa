// SPDX-License-Identifier: BSD-3-Clause
#include "acm/files/path_dump.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "base/text.hpp"
#include "mad/rate.hpp"

namespace wireup::acm {
namespace {

constexpr unsigned kLastUnicastLid = 0xBFFF;

/// The first line of a block.
struct Header {
  NodeKind kind = NodeKind::ChannelAdapter;
  Guid guid;
  Lid base_lid;
};

/// What a row says of the way to its LID.
struct Row {
  Sl sl;
  std::uint8_t mtu = 0;
  std::uint8_t rate = 0;
};

/// Everything about one LID: whose it is, and the ways there and back.
struct Port {
  NodeKind kind = NodeKind::ChannelAdapter;
  /// Zero: the dump has no port with this LID.
  Guid guid;
  /// Line of its header.
  std::size_t line = 0;
  std::optional<Row> outbound;
  std::optional<Row> inbound;

  /// No port has it as its base LID.
  [[nodiscard]] bool is_further() const noexcept { return line == 0; }
};

std::optional<NodeKind> header_kind(std::string_view first_word) noexcept {
  if (first_word == "Channel") {
    return NodeKind::ChannelAdapter;
  }
  if (first_word == "Switch") {
    return NodeKind::Switch;
  }
  if (first_word == "Router") {
    return NodeKind::Router;
  }
  return std::nullopt;
}

std::string_view first_word(const Line& line) noexcept {
  return Words(line.text).next();
}

std::optional<Lid> parse_unicast_lid(std::string_view text) noexcept {
  const auto value = parse_number(text);
  const auto lid = value.has_value() ? Lid::make(*value) : std::nullopt;
  return lid.has_value() && is_unicast(*lid) ? lid : std::nullopt;
}

/// `NODE TYPE 0xGUID, base LID N, "description", port N`; what is behind the LID is not read.
std::optional<Header> parse_header(const Line& line, NodeKind kind, ProblemLog& log) {
  Words words(line.text);
  (void)words.next();
  const bool is_named = kind != NodeKind::ChannelAdapter || words.next() == "Adapter";
  std::string_view guid_word = words.next();
  const bool is_form =
      is_named && guid_word.ends_with(',') && words.next() == "base" && words.next() == "LID";
  std::string_view lid_word = words.next();
  if (!is_form || !lid_word.ends_with(',')) {
    log.add(line.number, Errc::InvalidArgument,
            "the line of a port is 'TYPE 0xGUID, base LID N, \"...\", port N': its rows are left "
            "out; dump again");
    return std::nullopt;
  }
  guid_word.remove_suffix(1);
  lid_word.remove_suffix(1);
  const auto guid = parse_hexadecimal(guid_word);
  if (!guid.has_value() || *guid == 0) {
    log.add(line.number, Errc::InvalidArgument,
            "port GUID %s: up to 16 hexadecimal digits and not 0 are possible; dump again",
            shown(guid_word).data());
    return std::nullopt;
  }
  const auto lid = parse_unicast_lid(lid_word);
  if (!lid.has_value()) {
    log.add(line.number, Errc::InvalidArgument,
            "base LID %s: 1 to %u are possible; dump again when the port has a LID",
            shown(lid_word).data(), kLastUnicastLid);
    return std::nullopt;
  }
  return Header{.kind = kind, .guid = Guid(*guid), .base_lid = *lid};
}

/// 0 when the base LID cannot be one of a port with so many LIDs.
unsigned usable_lmc(const DumpedPort& own) noexcept {
  constexpr unsigned kMaxLmc = 7;
  const bool is_usable = own.lmc <= kMaxLmc && own.base_lid.value() % (1U << own.lmc) == 0;
  return is_usable ? own.lmc : 0;
}

class Dump {
 public:
  Dump(std::string_view text, const DumpedPort& own, ProblemLog& log)
      : text_(text), own_(own), lmc_(usable_lmc(own)), log_(log) {}

  PathDump read() {
    read_headers();
    if (!is_own_port_there()) {
      return std::move(dump_);
    }
    read_rows();
    make_paths();
    return std::move(dump_);
  }

 private:
  [[nodiscard]] Port& port(Lid lid) { return ports_[lid]; }

  /// The first pass: who has which LID. The first header of a LID counts.
  void read_headers() {
    LineReader lines(text_);
    while (const auto line = lines.next(log_)) {
      const auto kind = header_kind(first_word(*line));
      const auto header = kind.has_value() ? parse_header(*line, *kind, log_) : std::nullopt;
      if (!header.has_value()) {
        continue;
      }
      if (header->guid == own_.gid.interface_id()) {
        own_line_ = line->number;
        own_dumped_lid_ = header->base_lid;
      }
      Port& of_lid = port(header->base_lid);
      if (!of_lid.guid.is_zero()) {
        log_.add(line->number, Errc::InvalidArgument,
                 "base LID %u was in line %zu already: its rows are left out; dump again",
                 header->base_lid.value(), of_lid.line);
        continue;
      }
      of_lid.guid = header->guid;
      of_lid.kind = header->kind;
      of_lid.line = line->number;
      ++dump_.ports;
    }
    last_line_ = lines.number();
  }

  [[nodiscard]] bool is_own_port_there() {
    if (is_unicast(own_.base_lid) && port(own_.base_lid).guid == own_.gid.interface_id()) {
      return true;
    }
    const auto guid = static_cast<unsigned long long>(own_.gid.interface_id().value());
    if (own_dumped_lid_.has_value()) {
      log_.add(
          own_line_, Errc::Stale,
          "port 0x%016llx has base LID %u here and %u at the port: the dump is old; dump again",
          guid, own_dumped_lid_->value(), own_.base_lid.value());
    } else {
      log_.add(
          last_line_, Errc::NotFound,
          "port 0x%016llx with base LID %u is not in the %zu ports of this dump: is it of this "
          "fabric?",
          guid, own_.base_lid.value(), dump_.ports);
    }
    return false;
  }

  /// The second pass. Problems of lines that hold no row were reported by the first one.
  void read_rows() {
    Problems reported;
    ProblemLog unused({}, reported);
    LineReader lines(text_);
    // The port whose rows these are; nothing while they are nobody's.
    std::optional<Lid> source;
    bool was_port_seen = false;
    while (const auto line = lines.next(unused)) {
      if (const auto kind = header_kind(first_word(*line))) {
        const auto header = parse_header(*line, *kind, unused);
        const bool counts = header.has_value() && port(header->base_lid).line == line->number;
        source = counts ? std::optional(header->base_lid) : std::nullopt;
        was_port_seen = true;
      } else if (!was_port_seen) {
        log_.add(line->number, Errc::InvalidArgument,
                 "%s before the first port: is this a dump of full path records?",
                 shown(first_word(*line)).data());
      } else if (source.has_value()) {
        read_row(*line, *source);
      }
    }
  }

  void read_row(const Line& line, Lid source) {
    const std::size_t colon = line.text.find(':');
    const std::string_view lid_word = trim(line.text.substr(0, colon));
    const auto lid = parse_unicast_lid(lid_word);
    if (!lid.has_value() || colon == std::string_view::npos) {
      log_.add(line.number, Errc::InvalidArgument,
               "%s: a row is 'LID : SL : MTU : RATE' with a LID of 1 to 0xbfff; dump again",
               shown(lid_word).data());
      return;
    }
    if (source == own_.base_lid || base_of(*lid) == own_.base_lid) {
      read_way(line, source, *lid, line.text.substr(colon + 1));
    }
  }

  /// A row from this port or to it, or both. What was reported sets nothing.
  void read_way(const Line& line, Lid source, Lid destination, std::string_view values) {
    const bool is_outbound = source == own_.base_lid;
    if (trim(values) == "UNREACHABLE") {
      dump_.unreachable += is_outbound ? 1 : 0;
      return;
    }
    if (is_outbound && !is_somebodys(destination)) {
      ++dump_.foreign_lids;
      return;
    }
    const auto row = parse_row(line, values);
    if (!row.has_value()) {
      return;
    }
    // The way back is kept with the peer's LID of the same place as the own LID that it leads to.
    const Lid there(static_cast<std::uint16_t>(is_outbound ? destination.value()
                                                           : source.value() + destination.value() -
                                                                 own_.base_lid.value()));
    if (!is_unicast(there) || (there != source && !is_outbound && !port(there).is_further())) {
      return;
    }
    std::optional<Row>& way = is_outbound ? port(there).outbound : port(there).inbound;
    if (way.has_value()) {
      log_.add(line.number, Errc::InvalidArgument,
               "a second row to the same LID: the first one counts; dump again");
      return;
    }
    way = row;
    if (source == destination) {
      port(source).inbound = row;
    }
  }

  /// The base LID of the port that has this one, if it has as many LIDs as this port.
  [[nodiscard]] Lid base_of(Lid lid) const noexcept {
    return Lid(static_cast<std::uint16_t>(lid.value() >> lmc_ << lmc_));
  }

  /// Is there a port with this LID? Further LIDs are noted as theirs.
  [[nodiscard]] bool is_somebodys(Lid lid) {
    const Port& owner = port(base_of(lid));
    if (port(lid).guid.is_zero() && !owner.guid.is_zero()) {
      port(lid).guid = owner.guid;
      port(lid).kind = owner.kind;
    }
    return !port(lid).guid.is_zero();
  }

  /// `SL : MTU : RATE`, the codes in decimal.
  std::optional<Row> parse_row(const Line& line, std::string_view values) {
    std::array<std::uint8_t, 3> numbers{};
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const std::size_t colon = values.find(':');
      const std::string_view word = trim(values.substr(0, colon));
      const auto number = parse_decimal(word);
      const bool is_last = i + 1 == numbers.size();
      if (!number.has_value() || *number > 0xFF || is_last != (colon == std::string_view::npos)) {
        log_.add(line.number, Errc::InvalidArgument,
                 "%s behind the LID: three numbers 'SL : MTU : RATE' or UNREACHABLE; dump again",
                 shown(word).data());
        return std::nullopt;
      }
      numbers[i] = static_cast<std::uint8_t>(*number);
      values.remove_prefix(is_last ? values.size() : colon + 1);
    }
    const auto [sl, mtu, rate] = numbers;
    if (sl > Sl::kMax || !mad::mtu_bytes(mtu).has_value() || !mad::rate_mbps(rate).has_value()) {
      log_.add(
          line.number, Errc::InvalidArgument,
          "SL %u, MTU code %u, rate code %u: 0 to 15, 1 to 5, 2 to 25 are possible; dump again", sl,
          mtu, rate);
      return std::nullopt;
    }
    return Row{.sl = Sl(sl), .mtu = mtu, .rate = rate};
  }

  void make_paths() {
    for (const auto& [peer_lid, peer] : ports_) {
      if (!peer.outbound.has_value()) {
        continue;
      }
      const unsigned place = peer.is_further() ? peer_lid.value() - base_of(peer_lid).value() : 0;
      const Lid own_lid(static_cast<std::uint16_t>(own_.base_lid.value() + place));
      const Gid peer_gid = Gid::make(own_.gid.prefix(), peer.guid);
      mad::PathRecord record = record_of(*peer.outbound, peer_lid == own_lid);
      record.sgid = own_.gid;
      record.slid = own_lid;
      record.dgid = peer_gid;
      record.dlid = peer_lid;
      DumpedPath path{.destination = peer.kind, .outbound = record, .inbound = std::nullopt};
      if (peer.inbound.has_value()) {
        record = record_of(*peer.inbound, peer_lid == own_lid);
        record.sgid = peer_gid;
        record.slid = peer_lid;
        record.dgid = own_.gid;
        record.dlid = own_lid;
        path.inbound = record;
      }
      dump_.paths.push_back(path);
    }
  }

  [[nodiscard]] mad::PathRecord record_of(const Row& row, bool is_loopback) const {
    mad::PathRecord record;
    record.reversible = true;
    record.numb_path = 1;
    record.pkey = own_.pkey;
    record.sl = row.sl;
    record.mtu_selector = mad::Selector::Exactly;
    record.mtu = row.mtu;
    record.rate_selector = mad::Selector::Exactly;
    record.rate = row.rate;
    record.packet_lifetime_selector = mad::Selector::Exactly;
    record.packet_lifetime = is_loopback ? std::uint8_t{0} : own_.packet_lifetime;
    return record;
  }

  std::string_view text_;
  const DumpedPort& own_;
  unsigned lmc_;
  ProblemLog& log_;
  std::map<Lid, Port> ports_;
  PathDump dump_;
  std::size_t last_line_ = 0;
  /// Where the own GUID was seen last, and with which LID.
  std::size_t own_line_ = 0;
  std::optional<Lid> own_dumped_lid_;
};

}  // namespace

Parsed<PathDump> parse_path_dump(std::string_view text, std::string_view file,
                                 const DumpedPort& own) {
  Parsed<PathDump> parsed;
  ProblemLog log(file, parsed.problems);
  parsed.value = Dump(text, own, log).read();
  return parsed;
}

}  // namespace wireup::acm
