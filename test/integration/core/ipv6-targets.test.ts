import { once } from 'node:events';
import { type Agent, get, type IncomingMessage } from 'node:http';
import { credentials } from '@grpc/grpc-js';
import { serviceChannelOptions, serviceTarget } from 'evenkeel/grpc-js';
import { createAgent } from 'evenkeel/node-http';
import { createConnector } from 'evenkeel/tcp';
import { createFetch } from 'evenkeel/undici';
import { createWebSockets } from 'evenkeel/ws';
import { describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { calledAfterEach } from '../../support/opened.js';
import { hasIpv6, Ipv6Door, needsIpv6 } from '../../support/pods/ipv6.js';
import type { ServerProcess } from '../../support/pods/pod-program.js';
import { Pod } from '../../support/pods/pods.js';
import { SocketPod } from '../../support/pods/socket-pods.js';
import { WsPod } from '../../support/pods/ws-pods.js';
import { titleOf } from '../../support/title-of.js';
import { Echo, say } from '../grpc-js/support/client.js';
import { Pod as GrpcPod } from '../grpc-js/support/pods.js';

const cleanups = calledAfterEach();

/** A pod on 127.0.0.1 that can be reached at ::1, too. */
async function portBehindDoor(pod: ServerProcess<unknown, string>): Promise<number> {
  const { port } = pod.endpoint;
  const door = await Ipv6Door.open(port);
  cleanups.push(
    () => pod[Symbol.asyncDispose](),
    () => door[Symbol.asyncDispose](),
  );
  return port;
}

describe.runIf(hasIpv6)(titleOf('an IPv6 address as the target', hasIpv6, needsIpv6), () => {
  it('over HTTP, by fetch and by http.request: the Host header has its brackets', async () => {
    const pod = await Pod.start({ host: '::1' });
    cleanups.push(() => pod[Symbol.asyncDispose]());
    const url = `http://[::1]:${pod.port}`;
    const fetch = createFetch(url);
    cleanups.push(() => fetch.close());
    expect(await (await fetch('/')).json()).toMatchObject({ host: `[::1]:${pod.port}` });

    const agent = createAgent(url);
    cleanups.push(() => agent.close());
    const [response] = (await once(get(url, { agent: agent as Agent }), 'response')) as [IncomingMessage];
    let text = '';
    for await (const chunk of response) text += chunk;
    expect(JSON.parse(text)).toMatchObject({ host: `[::1]:${pod.port}` });
  });

  it('over gRPC: the authority has its brackets', async () => {
    const pod = await GrpcPod.start('pod', { host: '[::1]', port: 0 });
    cleanups.push(() => pod.stop());
    const client = new Echo(
      serviceTarget(`static:[::1]:${pod.port}`),
      credentials.createInsecure(),
      serviceChannelOptions({}),
    );
    cleanups.push(() => client.close());
    expect(await say(client)).toMatchObject({ pod: 'pod', authority: `[::1]:${pod.port}` });
  });

  it('over WebSockets', async () => {
    const port = await portBehindDoor(await WsPod.start());
    const url = `ws://[::1]:${port}`;
    const webSockets = createWebSockets(url);
    cleanups.push(() => webSockets.close({ signal: AbortSignal.abort() }));
    const socket = new WebSocket(url, { agent: webSockets.agent });
    cleanups.push(() => socket.terminate());
    const [greeting] = await once(socket, 'message');
    expect(JSON.parse(String(greeting))).toMatchObject({ host: `[::1]:${port}` });
  });

  it('over TCP', async () => {
    const port = await portBehindDoor(await SocketPod.start());
    const connector = createConnector(`[::1]:${port}`);
    cleanups.push(() => connector.close({ signal: AbortSignal.abort() }));
    const socket = await connector.connect();
    cleanups.push(() => socket.destroy());
    expect(socket.remoteAddress).toBe('::1');
    expect(String((await once(socket, 'data'))[0])).not.toBe('');
  });
});
