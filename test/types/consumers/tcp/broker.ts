import type { Socket } from 'node:net';
import { leastLoaded } from 'evenkeel';
import { type ConnectionLeaving, type Connector, createConnector } from 'evenkeel/tcp';

const broker: Connector = createConnector('broker.shop:5672', {
  picker: leastLoaded(),
  leaveSpreadMs: 5_000,
  rebalance: { ratioPerMinute: 0.2 },
  onLeaving: ({ reason, untilMs }: ConnectionLeaving, socket: Socket) => void [reason, untilMs, socket.end()],
});
const socket: Socket = await broker.connect({ key: 'customer 7', finish: (open) => open.end('QUIT\r\n') });
socket.write('hello');
broker.createConnection().setEncoding('utf8');
void broker.balancer.snapshot();
// @ts-expect-error: an option that does not exist
createConnector('broker.shop:5672', { leaveSpread: 1 });
