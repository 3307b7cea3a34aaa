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
static_assert(layout_is_exact<Lap>());
static_assert(layout_is_exact<WireApr>());
static_assert(layout_is_exact<SidrReq>());
static_assert(layout_is_exact<WireSidrRep>());

/// REJ, APR and SIDR_REP have the same space for what would have been acceptable.
constexpr std::size_t kInfoSize = Rej::kAriSize;
static_assert(Apr::kInfoSize == kInfoSize && SidrRep::kInfoSize == kInfoSize);

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

/// The first `length` of the bytes that the message keeps for information.
Result<BoundedBytes<kInfoSize>> info_of(CmKind kind, std::size_t length,
                                        std::span<const std::uint8_t, kInfoSize> space) noexcept {
  if (length > kInfoSize) {
    return fail(Error::make(Errc::Malformed,
                            "%s with additional information of %zu bytes, at most %zu fit",
                            cm_kind_name(kind).data(), length, kInfoSize));
  }
  return *BoundedBytes<kInfoSize>::make(space.first(length));
}

Result<CmMessage> read_rej(const Header& header, std::span<const std::uint8_t> data) noexcept {
  WireRej wire;
  FieldReader reader(data);
  layout(reader, wire);
  const auto ari = info_of(CmKind::Rej, wire.ari_length.value(), wire.ari);
  if (!ari) {
    return fail(ari.error());
  }
  Rej rej;
  rej.tid = header.tid;
  rej.local_comm_id = wire.local_comm_id;
  rej.remote_comm_id = wire.remote_comm_id;
  rej.message = wire.message;
  rej.reason = wire.reason;
  rej.ari = *ari;
  rej.private_data = wire.private_data;
  return CmMessage(rej);
}

Result<CmMessage> read_apr(const Header& header, std::span<const std::uint8_t> data) noexcept {
  WireApr wire;
  FieldReader reader(data);
  layout(reader, wire);
  const auto info = info_of(CmKind::Apr, wire.info_length, wire.info);
  if (!info) {
    return fail(info.error());
  }
  Apr apr;
  apr.tid = header.tid;
  apr.local_comm_id = wire.local_comm_id;
  apr.remote_comm_id = wire.remote_comm_id;
  apr.status = wire.status;
  apr.info = *info;
  apr.private_data = wire.private_data;
  return CmMessage(apr);
}

Result<CmMessage> read_sidr_rep(const Header& header, std::span<const std::uint8_t> data) noexcept {
  WireSidrRep wire;
  FieldReader reader(data);
  layout(reader, wire);
  const auto info = info_of(CmKind::SidrRep, wire.info_length, wire.info);
  if (!info) {
    return fail(info.error());
  }
  SidrRep rep;
  rep.tid = header.tid;
  rep.request_id = wire.request_id;
  rep.status = wire.status;
  rep.info = *info;
  rep.ece_vendor = wire.ece_vendor;
  rep.ece_options = header.attribute_modifier;
  rep.qpn = wire.qpn;
  rep.service_id = wire.service_id;
  rep.qkey = wire.qkey;
  rep.private_data = wire.private_data;
  return CmMessage(rep);
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
      return CmMessage(read<SidrReq>(*header, data));
    case CmKind::SidrRep:
      return read_sidr_rep(*header, data);
    case CmKind::Lap:
      return CmMessage(read<Lap>(*header, data));
    case CmKind::Apr:
      return read_apr(*header, data);
  }
  return fail(Error::make(Errc::Malformed, "attribute 0x%04x is no CM message",
                          static_cast<unsigned>(header->attribute_id)));
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

Mad serialize(const Lap& message) noexcept {
  return write(message);
}
Mad serialize(const SidrReq& message) noexcept {
  return write(message);
}

Mad serialize(const Apr& message) noexcept {
  WireApr wire;
  wire.local_comm_id = message.local_comm_id;
  wire.remote_comm_id = message.remote_comm_id;
  wire.info_length = static_cast<std::uint8_t>(message.info.size());
  wire.status = message.status;
  wire.info = private_data<kInfoSize>(message.info.span());
  wire.private_data = message.private_data;
  return write(CmKind::Apr, message.tid, 0, wire);
}

Mad serialize(const SidrRep& message) noexcept {
  WireSidrRep wire;
  wire.request_id = message.request_id;
  wire.status = message.status;
  wire.info_length = static_cast<std::uint8_t>(message.info.size());
  wire.ece_vendor = message.ece_vendor;
  wire.qpn = message.qpn;
  wire.service_id = message.service_id;
  wire.qkey = message.qkey;
  wire.info = private_data<kInfoSize>(message.info.span());
  wire.private_data = message.private_data;
  return write(CmKind::SidrRep, message.tid, message.ece_options, wire);
}

Mad serialize(const CmMessage& message) {
  return std::visit([](const auto& m) { return serialize(m); }, message);
}

}  // namespace wireup::mad
