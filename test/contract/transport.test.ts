import { createEndpoint } from '../../src/endpoint/endpoint.js';
import { FakeTransport } from '../../src/testing/fake-transport.js';
import { transportContract } from './transport.js';

transportContract({
  name: 'FakeTransport',
  open: () => {
    const transport = new FakeTransport();
    transport.behaviour.set('10.0.0.2:80', 'refuse');
    transport.behaviour.set('10.0.0.3:80', 'hang');
    return {
      transport,
      endpoint: createEndpoint({ address: '10.0.0.1', port: 80 }),
      refusing: createEndpoint({ address: '10.0.0.2', port: 80 }),
      hanging: createEndpoint({ address: '10.0.0.3', port: 80 }),
      open: () => transport.open().length + transport.hanging,
      end: (how) => {
        for (const connection of transport.open()) connection.end(how === 'badly' ? new Error('reset') : undefined);
      },
      call: async (connection) => connection.begin(),
      close: () => {},
    };
  },
});
