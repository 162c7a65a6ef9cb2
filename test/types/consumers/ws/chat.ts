import { leastLoaded } from 'evenkeel';
import { type ConnectionLeaving, createWebSockets, type ServiceWebSockets } from 'evenkeel/ws';
import type { WebSocket } from 'ws';

const chat: ServiceWebSockets = createWebSockets('wss://chat.shop', {
  picker: leastLoaded(),
  closeLeaving: true,
  leaveCode: 4012,
  rebalance: { ratioPerMinute: 0.2 },
  onLeaving: ({ reason }: ConnectionLeaving, socket) => void [reason, 'send' in socket && socket.close(1000)],
});
const socket: WebSocket = new chat.WebSocket('wss://chat.shop/rooms/7', ['v2.chat'], { headers: { a: 'b' } });
socket.send('hello');
void [chat.agent.requests, chat.balancer.snapshot()];
// @ts-expect-error: an option that does not exist
createWebSockets('wss://chat.shop', { code: 1 });
