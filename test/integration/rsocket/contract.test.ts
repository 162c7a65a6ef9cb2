import { createEndpoint } from 'evenkeel';
import {
  connectionSettings,
  type PodRSocket,
  rsocketTransport,
  Stream,
} from '../../../examples/rsocket/adapter/index.js';
import { transportContract } from '../../contract/transport.js';
import { refusingEndpoint } from '../../support/pods/hanging-endpoint.js';
import { RSocketPod } from '../../support/pods/rsocket-pods.js';
import { SilentServer } from '../../support/pods/silent-server.js';
import { until } from '../../support/until.js';

transportContract<PodRSocket>({
  name: 'rsocketTransport',
  open: async () => {
    const pod = await RSocketPod.start();
    // Accepts, and never answers the SETUP frame.
    const silent = await SilentServer.start();
    let held = 0;
    return {
      transport: rsocketTransport(connectionSettings({}), 'orders.shop'),
      endpoint: createEndpoint(pod.endpoint),
      refusing: createEndpoint(await refusingEndpoint()),
      hanging: createEndpoint(silent.endpoint),
      open: () => pod.stats.open + silent.open,
      end: (how) => void pod.command(how === 'cleanly' ? 'end' : 'reset'),
      call: async (handle) => {
        let over = (_how: 'finished' | 'cut'): void => {};
        const ended = new Promise<'finished' | 'cut'>((resolve) => {
          over = resolve;
        });
        const request = {
          type: 'requestResponse',
          payload: { data: Buffer.from('hang') },
          requestN: 0,
          isCompleted: true,
          idempotent: false,
        } as const;
        const nothing = () => {};
        const receiver = {
          onNext: () => over('finished'),
          onError: nothing,
          onComplete: nothing,
          onExtension: nothing,
          request: nothing,
          cancel: nothing,
        };
        const before = held++;
        new Stream(handle, request, {
          receiver,
          answered: nothing,
          succeeded: nothing,
          failed: () => over('cut'),
        }).begin(request);
        await until('the pod has it', () => pod.stats.data.length > before);
        return { ended, finish: () => void pod.command('release') };
      },
      close: async () => {
        await pod[Symbol.asyncDispose]();
        await silent[Symbol.asyncDispose]();
      },
    };
  },
});
