import { Client, credentials } from '@grpc/grpc-js';
import { p2c, staticEndpoints } from 'evenkeel';
import { serviceChannelOptions, serviceTarget } from 'evenkeel/grpc-js';

const resolver = staticEndpoints([{ address: '10.0.0.1', port: 50051 }]);

// A generated client takes both as they are.
new Client(
  serviceTarget('orders.shop:50051'),
  credentials.createInsecure(),
  serviceChannelOptions({ picker: p2c(), resolver }),
);
new Client(serviceTarget('orders.shop:50051'), credentials.createInsecure(), {
  ...serviceChannelOptions({ onBalancer: (balancer) => void balancer.snapshot() }),
  'grpc.max_receive_message_length': 1_000_000,
});
// @ts-expect-error: an option that does not exist
serviceChannelOptions({ pickers: p2c() });
// @ts-expect-error: an option of grpc-js with a wrong value
serviceChannelOptions({ 'grpc.keepalive_time_ms': '5s' });
serviceChannelOptions({ 'grpc.keepalive_time_ms': 5_000, 'grpc.some_future_option': 1 });
