import { Socket } from 'node:net';
import { expect, it } from 'vitest';
import { PodSockets } from '../../../../src/adapter/http/pod-sockets.js';

const alert = (): Error => Object.assign(new Error('unknown ca'), { code: 'ERR_SSL_TLSV1_ALERT_UNKNOWN_CA' });

it('a spare socket with a TLS error is given to no request, though it is still open', async () => {
  const failures: (Error | undefined)[] = [];
  const sockets = new PodSockets(
    () => new Socket(),
    (failure) => failures.push(failure),
  );
  const socket = new Socket();
  sockets.add(socket);
  sockets.setAside(socket);
  const error = alert();
  socket.emit('error', error);
  expect(sockets.takeSpare()).toBeUndefined();
  await new Promise((resolve) => socket.once('close', resolve));
  expect(failures).toEqual([error]);
});
