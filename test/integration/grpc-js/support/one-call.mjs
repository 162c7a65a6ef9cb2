/** Makes one call through evenkeel and leaves its channel open: what is alive then keeps a process from ending. */
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { staticEndpoints } from 'evenkeel';
import { serviceChannelOptions, serviceTarget } from 'evenkeel/grpc-js';

const require = createRequire(import.meta.url);
const grpc = require('@grpc/grpc-js');
const { loadSync } = require('@grpc/proto-loader');
const { test } = grpc.loadPackageDefinition(loadSync(fileURLToPath(new URL('echo.proto', import.meta.url))));

let balancer;
const client = new test.v1.Echo(
  serviceTarget('orders.shop:50051'),
  grpc.credentials.createInsecure(),
  serviceChannelOptions({
    resolver: staticEndpoints(JSON.parse(process.argv[2])),
    onBalancer: (made) => {
      balancer = made;
    },
  }),
);
client.say({ text: 'hello' }, (error, words) => {
  if (error) throw error;
  const { state } = balancer.snapshot();
  setImmediate(() => {
    const alive = process.getActiveResourcesInfo().filter((type) => /Timeout|TCP|Immediate/.test(type));
    console.log(JSON.stringify({ text: words.text, state, alive }));
  });
});
