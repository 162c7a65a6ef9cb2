import type { ClientHttp2Stream } from 'node:http2';
import { p2c } from 'evenkeel';
import { createHttp2Client, createSessionManager, type ServiceHttp2Client } from 'evenkeel/http2';

const orders: ServiceHttp2Client = createHttp2Client('https://orders.shop', {
  picker: p2c(),
  connections: { max: 4 },
  tls: { ca: '' },
  key: (headers) => String(headers['x-user']),
});
const stream: ClientHttp2Stream = orders.request({ ':path': '/v1/orders' }, { signal: AbortSignal.timeout(1_000) });
stream.close();
void orders.balancer.snapshot();
void orders.close();
const manager = createSessionManager('http://orders.shop:8080', { pingIntervalMs: 20_000 });
console.log(manager.authority);
// @ts-expect-error: an option that does not exist
createHttp2Client('https://orders.shop', { protocol: 'h2' });
