import { createSecureServer, type Http2SecureServer, type ServerHttp2Session } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { createDispatcher, type ServiceDispatcher } from 'evenkeel/undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createCertificate } from '../../servers/index.js';
import { titleOf } from '../../support/title-of.js';
import { carriesHttp2 } from './support/version.js';

const certificate = createCertificate({ hosts: ['orders.shop'] });

describe.runIf(carriesHttp2)(
  titleOf('with undici 8, an upgrade over HTTP/2', carriesHttp2, 'it needs undici 8.10'),
  () => {
    let server: Http2SecureServer;
    let sessions: ServerHttp2Session[];
    let status: number;
    let orders: ServiceDispatcher;

    beforeEach(async () => {
      sessions = [];
      server = createSecureServer({ ...certificate, settings: { enableConnectProtocol: true } });
      server.on('session', (session) => sessions.push(session));
      server.on('stream', (stream, headers) => {
        stream.on('error', () => {});
        stream.respond({ ':status': headers[':method'] === 'CONNECT' ? status : 200 });
        stream.end('an answer');
      });
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      const { port } = server.address() as AddressInfo;
      orders = createDispatcher('https://orders.shop:8443', {
        resolver: `static:127.0.0.1:${port}`,
        tls: { ca: certificate.cert },
        allowH2: true,
      });
    });
    afterEach(async () => {
      await orders.destroy();
      for (const session of sessions) session.destroy();
      await new Promise((resolve) => server.close(resolve));
    });

    const inFlight = (): number | undefined => orders.balancer.snapshot().endpoints[0]?.inFlight;

    it.each([404, 503])("that is refused with %i fails with undici's error", async (refused) => {
      status = refused;
      await expect(orders.upgrade({ path: '/', protocol: 'websocket' })).rejects.toMatchObject({
        code: 'UND_ERR_SOCKET',
        message: 'bad upgrade',
      });
      expect(inFlight()).toBe(0);
      const { statusCode, body } = await orders.request({ path: '/', method: 'GET' });
      expect([statusCode, await body.text()]).toEqual([200, 'an answer']);
      await orders.close();
    });

    it('that succeeds is a call on its pod until it is closed', async () => {
      status = 200;
      const { socket } = await orders.upgrade({ path: '/', protocol: 'websocket' });
      expect(inFlight()).toBe(1);
      const closed = new Promise((resolve) => socket.once('close', resolve));
      let text = '';
      socket.on('data', (chunk: Buffer) => {
        text += String(chunk);
      });
      socket.on('end', () => socket.end());
      await closed;
      expect(text).toBe('an answer');
      expect(inFlight()).toBe(0);
    });
  },
);
