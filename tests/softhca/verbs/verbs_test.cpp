// SPDX-License-Identifier: BSD-3-Clause
#include <fcntl.h>

#include <thread>

#include <malloc.h>
#include "softhca/hca/event_channel.hpp"
#include "softhca/hca/process_table.hpp"

#include "softhca/verbs/two_hosts.hpp"

namespace softhca::test {
namespace {

constexpr int kRounds = 200;
constexpr std::uint32_t kSize = 3000;

TEST_F(TwoHosts, SendsAndReceivesWithData) {
  const auto play = [](bool first) {
    return [first](int socket) {
      Program me(socket, IBV_QPT_RC, false);
      me.post_recv(1, 0, kSize);
      me.connect();
      for (int round = 0; round < kRounds; ++round) {
        const auto pattern = static_cast<std::uint8_t>(round);
        if (first || round > 0) {
          std::memset(me.buffer.data() + 8192, pattern, kSize);
          if (first) {
            me.post(IBV_WR_SEND, 2, 8192, kSize);
            CHILD_CHECK(me.wait_for(2).status == IBV_WC_SUCCESS);
          }
        }
        const ibv_wc wc = me.wait_for(1);
        CHILD_CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == kSize);
        CHILD_CHECK(me.buffer[0] == pattern && me.buffer[kSize - 1] == pattern);
        me.post_recv(1, 0, kSize);
        if (!first) {
          std::memset(me.buffer.data() + 8192, pattern, kSize);
          me.post(IBV_WR_SEND, 2, 8192, kSize);
          CHILD_CHECK(me.wait_for(2).status == IBV_WC_SUCCESS);
        }
      }
      me.meet();
    };
  };
  run(play(true), play(false));
}

TEST_F(TwoHosts, WritesWithImmediateOfAMegabyte) {
  run(
      [](int socket) {
        Program me(socket, IBV_QPT_RC, false);
        me.connect();
        for (std::size_t i = 0; i < me.buffer.size(); ++i) {
          me.buffer[i] = static_cast<std::uint8_t>(i * 7);
        }
        me.post(IBV_WR_RDMA_WRITE_WITH_IMM, 1, 0, 1 << 20);
        CHILD_CHECK(me.wait().status == IBV_WC_SUCCESS);
        me.meet();
      },
      [](int socket) {
        Program me(socket, IBV_QPT_RC, false);
        me.post_recv(1, 0, 0);
        me.connect();
        const ibv_wc wc = me.wait();
        CHILD_CHECK(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.imm_data == 0xABCD);
        for (std::size_t i = 0; i < me.buffer.size(); ++i) {
          CHILD_CHECK(me.buffer[i] == static_cast<std::uint8_t>(i * 7));
        }
        me.meet();
      });
}

TEST_F(TwoHosts, CompletionEventsComeThroughAPollableDescriptor) {
  run(
      [](int socket) {
        Program me(socket, IBV_QPT_RC, false);
        me.connect();
        for (int i = 0; i < 3; ++i) {
          me.meet();  // the other end is armed
          me.post(IBV_WR_SEND, 1, 0, 10);
          CHILD_CHECK(me.wait().status == IBV_WC_SUCCESS);
        }
        me.meet();
      },
      [](int socket) {
        Program me(socket, IBV_QPT_RC, true);
        for (int i = 0; i < 3; ++i) {
          me.post_recv(5, 0, 10);
        }
        me.connect();
        CHILD_CHECK(::fcntl(me.channel->fd, F_SETFL, O_NONBLOCK) == 0);
        for (int i = 0; i < 3; ++i) {
          pollfd poller{me.channel->fd, POLLIN, 0};
          CHILD_CHECK(::poll(&poller, 1, 0) == 0);
          ibv_cq* cq = nullptr;
          void* context = nullptr;
          CHILD_CHECK(ibv_get_cq_event(me.channel, &cq, &context) == -1 && errno == EAGAIN);
          CHILD_CHECK(ibv_req_notify_cq(me.cq, 0) == 0);
          me.meet();
          CHILD_CHECK(::poll(&poller, 1, 10'000) == 1);
          CHILD_CHECK(ibv_get_cq_event(me.channel, &cq, &context) == 0);
          CHILD_CHECK(cq == me.cq && context == &me);
          ibv_ack_cq_events(cq, 1);
          ibv_wc wc{};
          CHILD_CHECK(ibv_poll_cq(me.cq, 1, &wc) == 1 && wc.wr_id == 5);
        }
        me.meet();
      });
}

TEST_F(TwoHosts, OnlySolicitedCompletionsWakeASolicitedRequest) {
  run(
      [](int socket) {
        Program me(socket, IBV_QPT_RC, false);
        me.connect();
        me.meet();
        me.post(IBV_WR_SEND, 1, 0, 10);
        CHILD_CHECK(me.wait().status == IBV_WC_SUCCESS);
        me.meet();  // not solicited: the other end must not have been woken
        me.meet();
        ibv_sge sge{me.address(0), 10, me.mr->lkey};
        ibv_send_wr wr{};
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.opcode = IBV_WR_SEND;
        wr.send_flags = IBV_SEND_SOLICITED;
        ibv_send_wr* bad = nullptr;
        CHILD_CHECK(ibv_post_send(me.qp, &wr, &bad) == 0);
        me.meet();
      },
      [](int socket) {
        Program me(socket, IBV_QPT_RC, true);
        me.post_recv(1, 0, 10);
        me.post_recv(2, 0, 10);
        me.connect();
        CHILD_CHECK(ibv_req_notify_cq(me.cq, 1) == 0);
        me.meet();
        me.meet();
        pollfd poller{me.channel->fd, POLLIN, 0};
        CHILD_CHECK(::poll(&poller, 1, 0) == 0);
        me.meet();
        CHILD_CHECK(::poll(&poller, 1, 10'000) == 1);
        me.meet();
      });
}

TEST_F(TwoHosts, ArmingWithAnUnpolledCompletionWakesAtOnce) {
  run(
      [](int socket) {
        Program me(socket, IBV_QPT_RC, false);
        me.connect();
        me.post(IBV_WR_SEND, 1, 0, 10);
        CHILD_CHECK(me.wait().status == IBV_WC_SUCCESS);
        me.meet();  // the message is there
        me.meet();
      },
      [](int socket) {
        Program me(socket, IBV_QPT_RC, true);
        me.post_recv(5, 0, 10);
        me.connect();
        me.meet();
        pollfd poller{me.channel->fd, POLLIN, 0};
        CHILD_CHECK(ibv_req_notify_cq(me.cq, 1) == 0);
        CHILD_CHECK(::poll(&poller, 1, 0) == 0);  // it was not solicited
        CHILD_CHECK(ibv_req_notify_cq(me.cq, 0) == 0);
        CHILD_CHECK(::poll(&poller, 1, 10'000) == 1);
        ibv_cq* cq = nullptr;
        void* context = nullptr;
        CHILD_CHECK(ibv_get_cq_event(me.channel, &cq, &context) == 0);
        ibv_ack_cq_events(cq, 1);
        ibv_wc wc{};
        CHILD_CHECK(ibv_poll_cq(me.cq, 1, &wc) == 1 && wc.wr_id == 5);
        CHILD_CHECK(ibv_req_notify_cq(me.cq, 0) == 0);
        CHILD_CHECK(::poll(&poller, 1, 0) == 0);  // and now nothing is left
        me.meet();
      });
}

TEST_F(TwoHosts, DestroyingACqWaitsForItsEvents) {
  run(
      [](int socket) {
        Program me(socket, IBV_QPT_RC, false);
        me.connect();
        me.meet();
        me.post(IBV_WR_SEND, 1, 0, 10);
        me.meet();
      },
      [](int socket) {
        Program me(socket, IBV_QPT_RC, true);
        me.post_recv(1, 0, 10);
        me.connect();
        CHILD_CHECK(ibv_req_notify_cq(me.cq, 0) == 0);
        me.meet();
        ibv_cq* cq = nullptr;
        void* context = nullptr;
        CHILD_CHECK(ibv_get_cq_event(me.channel, &cq, &context) == 0);
        CHILD_CHECK(ibv_destroy_cq(me.cq) == EBUSY);  // its QP still is there
        me.destroy_qp();
        std::atomic<bool> destroyed{false};
        std::thread destroyer([&] {
          CHILD_CHECK(ibv_destroy_cq(me.cq) == 0);
          destroyed = true;
        });
        pollfd nothing{-1, 0, 0};
        ::poll(&nothing, 1, 50);
        CHILD_CHECK(!destroyed);
        ibv_ack_cq_events(cq, 1);
        destroyer.join();
        me.cq = nullptr;
        me.meet();
      });
}

TEST_F(TwoHosts, AKilledPeerEndsInRetryExceeded) {
  const pid_t victim = start("H2", 1, [](int socket) {
    Program me(socket, IBV_QPT_RC, false);
    for (std::uint64_t i = 0; i < 8; ++i) {
      me.post_recv(i, 0, 10);
    }
    me.connect();
    me.meet();
    ::pause();
  });
  const pid_t sender = start("H1", 0, [victim](int socket) {
    Program me(socket, IBV_QPT_RC, false);
    me.connect();
    me.meet();
    me.post(IBV_WR_SEND, 1, 0, 10);
    CHILD_CHECK(me.wait().status == IBV_WC_SUCCESS);
    ::kill(victim, SIGKILL);
    // Dead for certain, though not yet waited for.
    while (hca::read_process_status(static_cast<std::uint32_t>(victim))->state != 'Z') {
      std::this_thread::yield();
    }
    me.post(IBV_WR_SEND, 2, 0, 10);
    CHILD_CHECK(me.wait().status == IBV_WC_RETRY_EXC_ERR);
  });
  EXPECT_EQ(finish(sender), 0);
  EXPECT_EQ(finish(victim), 128 + SIGKILL);
}

TEST_F(TwoHosts, ObjectsMayOutliveTheirClosedContext) {
  run(
      [](int) {
        ::mallopt(M_PERTURB, 0xA5);  // what is freed is not to be read any more
        ibv_device** list = ibv_get_device_list(nullptr);
        CHILD_CHECK(list != nullptr && list[0] != nullptr);
        ibv_context* context = ibv_open_device(list[0]);
        ibv_free_device_list(list);
        ibv_pd* pd = ibv_alloc_pd(context);
        ibv_comp_channel* channel = ibv_create_comp_channel(context);
        ibv_cq* cq = ibv_create_cq(context, 8, nullptr, channel, 0);
        ibv_srq_init_attr srq_init{nullptr, {8, 1, 0}};
        ibv_srq* srq = ibv_create_srq(pd, &srq_init);
        std::array<char, 64> memory{};
        ibv_mr* mr = ibv_reg_mr(pd, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE);
        ibv_qp_init_attr init{};
        init.send_cq = cq;
        init.recv_cq = cq;
        init.cap = {8, 8, 1, 1, 0};
        init.qp_type = IBV_QPT_RC;
        ibv_qp* qp = ibv_create_qp(pd, &init);
        CHILD_CHECK(cq != nullptr && srq != nullptr && mr != nullptr && qp != nullptr);
        CHILD_CHECK(ibv_close_device(context) == 0);
        CHILD_CHECK(ibv_destroy_comp_channel(channel) == EBUSY);
        CHILD_CHECK(ibv_destroy_qp(qp) == 0 && ibv_destroy_srq(srq) == 0);
        CHILD_CHECK(ibv_dereg_mr(mr) == 0 && ibv_destroy_cq(cq) == 0);
        CHILD_CHECK(ibv_destroy_comp_channel(channel) == 0 && ibv_dealloc_pd(pd) == 0);
      },
      [](int) {});
}

TEST_F(TwoHosts, PortEventsReachEveryOpenContext) {
  run(
      [](int socket) {
        Program me(socket, IBV_QPT_RC, false);
        me.meet();
        pollfd poller{me.context->async_fd, POLLIN, 0};
        CHILD_CHECK(::poll(&poller, 1, 10'000) == 1);
        ibv_async_event event{};
        CHILD_CHECK(ibv_get_async_event(me.context, &event) == 0);
        CHILD_CHECK(event.event_type == IBV_EVENT_LID_CHANGE && event.element.port_num == 1);
        ibv_ack_async_event(&event);
        me.meet();
      },
      [this](int socket) {
        Program me(socket, IBV_QPT_RC, false);
        me.meet();
        // What the fabric agent does.
        const auto registry = hca::Registry::attach(dir_.path());
        const auto view = FabricView::attach(dir_.path());
        const PortAttr port = view->port(view->hcas_of("H1")[0].ports[0]);
        CHILD_CHECK(hca::send_port_event(*registry, port.hca_index, 1, IBV_EVENT_LID_CHANGE) == 1);
        me.meet();
        pollfd poller{me.context->async_fd, POLLIN, 0};
        CHILD_CHECK(::poll(&poller, 1, 0) == 0);  // not of this HCA
      });
}

TEST_F(TwoHosts, TablesAreReadAfreshAtEveryCall) {
  const pid_t child = start("H1", 0, [](int socket) {
    Program me(socket, IBV_QPT_RC, false);
    const std::uint16_t lid = me.port.lid;
    ibv_gid gid{};
    CHILD_CHECK(ibv_query_gid(me.context, 1, 0, &gid) == 0 && gid.raw[0] == 0xFE);
    CHILD_CHECK(ibv_query_gid(me.context, 1, me.port.gid_tbl_len, &gid) == -1);
    __be16 pkey = 0;
    CHILD_CHECK(ibv_query_pkey(me.context, 1, 0, &pkey) == 0 && pkey == 0xFFFF);
    CHILD_CHECK(ibv_get_pkey_index(me.context, 1, __builtin_bswap16(0x8123)) == -1);
    ibv_gid_entry entries[4] = {};
    CHILD_CHECK(ibv_query_gid_table(me.context, entries, 4, 0) >= 1);
    CHILD_CHECK(entries[0].port_num == 1 && std::memcmp(&entries[0].gid, &gid, 8) == 0);
    CHILD_CHECK(ibv_query_gid_table(me.context, entries, 0, 0) == -EINVAL);
    me.meet();
    me.meet();
    CHILD_CHECK(ibv_query_port(me.context, 1, &me.port) == 0);
    CHILD_CHECK(me.port.lid == lid + 9 && me.port.state == IBV_PORT_ARMED);
    CHILD_CHECK(ibv_get_pkey_index(me.context, 1, __builtin_bswap16(0x8123)) == 3);
    CHILD_CHECK(ibv_query_port(me.context, 2, &me.port) == EINVAL);
  });
  char letter = 'm';
  ASSERT_EQ(::read(sockets_[1], &letter, 1), 1);
  ASSERT_EQ(::write(sockets_[1], &letter, 1), 1);
  PortRecord& port = fabric_->model().ports[0];
  port.lid = static_cast<std::uint16_t>(port.lid + 9);
  port.state = kPortArmed;
  port.pkeys[3] = 0x8123;
  port.pkey_count = 4;
  ASSERT_TRUE(fabric_->publish());
  ASSERT_EQ(::read(sockets_[1], &letter, 1), 1);
  ASSERT_EQ(::write(sockets_[1], &letter, 1), 1);
  EXPECT_EQ(finish(child), 0);
}

TEST_F(TwoHosts, WithoutAFabricThereAreNoDevices) {
  const auto count_devices = [](int expected) {
    int count = -1;
    ibv_device** list = ibv_get_device_list(&count);
    CHILD_CHECK(list != nullptr && list[0] == nullptr && count == expected);
    ibv_free_device_list(list);
  };
  const pid_t no_host = start("nowhere", 0, [&](int) { count_devices(0); });
  EXPECT_EQ(finish(no_host), 0);
  const pid_t unset = start("H1", 0, [&](int) {
    ::unsetenv("SOFTHCA_DIR");
    count_devices(0);
  });
  EXPECT_EQ(finish(unset), 0);
  fabric_.reset();  // the agent ends
  const pid_t no_agent = start("H1", 0, [&](int) { count_devices(0); });
  EXPECT_EQ(finish(no_agent), 0);
}

}  // namespace
}  // namespace softhca::test
