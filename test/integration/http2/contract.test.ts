import { createEndpoint } from 'evenkeel';
import { resolveHttp2Options } from '../../../src/adapter/http2/options.js';
import { http2Transport, type PodSessions } from '../../../src/adapter/http2/transport.js';
import { transportContract } from '../../contract/transport.js';
import { ConnectPod } from '../../support/pods/connect-pods.js';
import { refusingEndpoint } from '../../support/pods/hanging-endpoint.js';
import { SilentServer } from '../../support/pods/silent-server.js';
import { until } from '../../support/until.js';

transportContract<PodSessions>({
  name: 'http2Transport',
  open: async () => {
    const pod = await ConnectPod.start();
    // Accepts, and never sends its settings.
    const silent = await SilentServer.start();
    const origin = new URL('http://orders.shop');
    let held = 0;
    return {
      transport: http2Transport(origin, resolveHttp2Options(origin, {})),
      endpoint: createEndpoint(pod.endpoint),
      refusing: createEndpoint(await refusingEndpoint()),
      hanging: createEndpoint(silent.endpoint),
      open: () => pod.stats.open + silent.open,
      end: (how) => void (how === 'cleanly' ? pod.command('goaway') : pod.command('reset')),
      call: async (handle) => {
        const session = handle.next();
        if (session === undefined) throw new Error('no session');
        const stream = session.request({ ':method': 'POST', ':path': '/hold' }, { endStream: true });
        handle.callStarted(session);
        const ended = new Promise<'finished' | 'cut'>((resolve) => {
          let isWhole = false;
          stream.on('response', () => {
            isWhole = true;
          });
          stream.resume();
          stream.on('error', () => {});
          stream.on('close', () => {
            handle.callEnded(session);
            resolve(isWhole ? 'finished' : 'cut');
          });
        });
        const before = held++;
        await until('the pod has it', () => pod.stats.requests > before);
        return { ended, finish: () => void pod.command('release') };
      },
      close: async () => {
        await pod[Symbol.asyncDispose]();
        await silent[Symbol.asyncDispose]();
      },
    };
  },
});
