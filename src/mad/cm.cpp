// SPDX-License-Identifier: BSD-3-Clause
#include "mad/cm.hpp"

#include "mad/cm_layout.hpp"

namespace wireup::mad {
namespace {

static_assert(layout_is_exact<Req>());
static_assert(layout_is_exact<Mra>());
static_assert(layout_is_exact<WireRej>());
static_assert(layout_is_exact<Rep>());
static_assert(layout_is_exact<Rtu>());
static_assert(layout_is_exact<Dreq>());
static_assert(layout_is_exact<Drep>());

template <typename M>
concept CarriesEce = requires(const M& m) {
  m.ece_options;
};

Header header_of(CmKind kind, Tid tid, std::uint32_t attribute_modifier) noexcept {
  Header header;
  header.mgmt_class = static_cast<std::uint8_t>(MgmtClass::CommMgt);
  header.class_version = kCmClassVersion;
  header.method = static_cast<std::uint8_t>(Method::Send);
  header.tid = tid;
  header.attribute_id = static_cast<std::uint16_t>(kind);
  header.attribute_modifier = attribute_modifier;
  return header;
}

template <typename M>
Mad write(CmKind kind, Tid tid, std::uint32_t attribute_modifier, const M& message) noexcept {
  Mad mad{};
  serialize(header_of(kind, tid, attribute_modifier), std::span(mad));
  FieldWriter writer{std::span(mad).subspan(kHeaderSize)};
  layout(writer, message);
  return mad;
}

template <typename M>
Mad write(const M& message) noexcept {
  if constexpr (CarriesEce<M>) {
    return write(M::kKind, message.tid, message.ece_options, message);
  } else {
    return write(M::kKind, message.tid, 0, message);
  }
}

template <typename M>
M read(const Header& header, std::span<const std::uint8_t> data) noexcept {
  M message;
  FieldReader reader(data);
  layout(reader, message);
  message.tid = header.tid;
  if constexpr (CarriesEce<M>) {
    message.ece_options = header.attribute_modifier;
  }
  return message;
}

Result<CmMessage> read_rej(const Header& header, std::span<const std::uint8_t> data) noexcept {
  WireRej wire;
  FieldReader reader(data);
  layout(reader, wire);
  if (wire.ari_length.value() > Rej::kAriSize) {
    return fail(Error::make(Errc::Malformed, "REJ with an ARI of %u bytes, at most %zu fit",
                            static_cast<unsigned>(wire.ari_length.value()), Rej::kAriSize));
  }
  Rej rej;
  rej.tid = header.tid;
  rej.local_comm_id = wire.local_comm_id;
  rej.remote_comm_id = wire.remote_comm_id;
  rej.message = wire.message;
  rej.reason = wire.reason;
  rej.ari = *decltype(rej.ari)::make(std::span(wire.ari).first(wire.ari_length.value()));
  rej.private_data = wire.private_data;
  return CmMessage(rej);
}

}  // namespace

std::string_view cm_kind_name(CmKind kind) noexcept {
  switch (kind) {
    case CmKind::Req:
      return "REQ";
    case CmKind::Mra:
      return "MRA";
    case CmKind::Rej:
      return "REJ";
    case CmKind::Rep:
      return "REP";
    case CmKind::Rtu:
      return "RTU";
    case CmKind::Dreq:
      return "DREQ";
    case CmKind::Drep:
      return "DREP";
    case CmKind::SidrReq:
      return "SIDR_REQ";
    case CmKind::SidrRep:
      return "SIDR_REP";
    case CmKind::Lap:
      return "LAP";
    case CmKind::Apr:
      return "APR";
  }
  return "unknown";
}

CmKind kind_of(const CmMessage& message) {
  return std::visit([](const auto& m) { return m.kKind; }, message);
}

Result<CmMessage> parse_cm(std::span<const std::uint8_t> bytes) noexcept {
  if (bytes.size() != kMadSize) {
    return fail(Error::make(Errc::Malformed, "CM message of %zu bytes, a MAD has %zu", bytes.size(),
                            kMadSize));
  }
  const auto header = parse_header(bytes);
  if (!header) {
    return fail(header.error());
  }
  if (header->mgmt_class != static_cast<std::uint8_t>(MgmtClass::CommMgt) ||
      header->class_version != kCmClassVersion ||
      header->method != static_cast<std::uint8_t>(Method::Send)) {
    return fail(Error::make(
        Errc::Malformed, "class 0x%02x version %u method 0x%02x is no CM message (0x07, 2, 0x03)",
        static_cast<unsigned>(header->mgmt_class), static_cast<unsigned>(header->class_version),
        static_cast<unsigned>(header->method)));
  }
  const auto kind = cm_kind(header->attribute_id);
  if (!kind) {
    return fail(Error::make(Errc::Malformed, "attribute 0x%04x is no CM message (0x0010 to 0x001a)",
                            static_cast<unsigned>(header->attribute_id)));
  }
  const auto data = bytes.subspan(kHeaderSize);
  switch (*kind) {
    case CmKind::Req:
      return CmMessage(read<Req>(*header, data));
    case CmKind::Mra:
      return CmMessage(read<Mra>(*header, data));
    case CmKind::Rej:
      return read_rej(*header, data);
    case CmKind::Rep:
      return CmMessage(read<Rep>(*header, data));
    case CmKind::Rtu:
      return CmMessage(read<Rtu>(*header, data));
    case CmKind::Dreq:
      return CmMessage(read<Dreq>(*header, data));
    case CmKind::Drep:
      return CmMessage(read<Drep>(*header, data));
    case CmKind::SidrReq:
    case CmKind::SidrRep:
    case CmKind::Lap:
    case CmKind::Apr:
      break;
  }
  // The names are literals, so they end with NUL.
  return fail(
      Error::make(Errc::Unsupported, "%s messages are not handled", cm_kind_name(*kind).data()));
}

Mad serialize(const Req& message) noexcept {
  return write(message);
}
Mad serialize(const Mra& message) noexcept {
  return write(message);
}
Mad serialize(const Rep& message) noexcept {
  return write(message);
}
Mad serialize(const Rtu& message) noexcept {
  return write(message);
}
Mad serialize(const Dreq& message) noexcept {
  return write(message);
}
Mad serialize(const Drep& message) noexcept {
  return write(message);
}

Mad serialize(const Rej& message) noexcept {
  WireRej wire;
  wire.local_comm_id = message.local_comm_id;
  wire.remote_comm_id = message.remote_comm_id;
  wire.message = message.message;
  wire.ari_length = decltype(wire.ari_length)(static_cast<std::uint8_t>(message.ari.size()));
  wire.reason = message.reason;
  wire.ari = private_data<Rej::kAriSize>(message.ari.span());
  wire.private_data = message.private_data;
  return write(CmKind::Rej, message.tid, 0, wire);
}

Mad serialize(const CmMessage& message) {
  return std::visit([](const auto& m) { return serialize(m); }, message);
}

}  // namespace wireup::mad
