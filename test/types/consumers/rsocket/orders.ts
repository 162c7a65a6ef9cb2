import { p2c } from 'evenkeel';
import { createRSocket, type ServiceRSocket } from 'evenkeel/rsocket';
import type { RSocket } from 'rsocket-core';

const orders: ServiceRSocket = createRSocket('orders.shop:7000', {
  picker: p2c(),
  setup: { dataMimeType: 'application/json', keepAlive: 10_000 },
  lease: true,
});
const receiver = { onNext: () => {}, onError: () => {}, onComplete: () => {}, onExtension: () => {} };
orders.requestResponse({ data: Buffer.from('42') }, receiver, { idempotent: true, key: 'customer 7' }).cancel();
orders.requestStream({ data: null }, 10, receiver).request(10);
void orders.balancer.snapshot();

// It is what the library's connector delivers.
const rsocket: RSocket = orders;
rsocket.close();
// @ts-expect-error: an option that does not exist
createRSocket('orders.shop:7000', { resume: {} });
// @ts-expect-error: only what is answered once can be repeated
orders.requestStream({ data: null }, 10, receiver, { idempotent: true });
