import type { buildConnector } from 'undici';
import type { Balancer } from '../../index.js';
import type { DialOptions } from '../http/dial.js';
import { MockedDial } from '../http/mocked-sockets.js';

/** Opens sockets for an Agent of undici that a mock takes for sockets to the Service. */
export function mockedConnector(balancer: Balancer<unknown>, options: DialOptions): buildConnector.connector {
  const dial = new MockedDial(balancer, options);
  return ({ hostname, port, protocol }, supplied) => {
    const asked = { host: hostname, port: Number(port || (protocol === 'https:' ? 443 : 80)) };
    dial.connect(asked, (error, socket) => {
      if (error === undefined) supplied(null, socket);
      else supplied(error, null);
    });
  };
}
