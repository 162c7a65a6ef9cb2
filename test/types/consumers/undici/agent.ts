import { hash } from 'evenkeel';
import { appInterceptor, createAppAgent, type ServiceOptions } from 'evenkeel/undici';
import { Agent, interceptors, RetryAgent, setGlobalDispatcher } from 'undici';

const agent = createAppAgent({
  services: ({ hostname }) => (hostname === 'legacy.shop' ? false : undefined),
  options: ({ protocol }): ServiceOptions | undefined => (protocol === 'https:' ? { tls: { ca: '' } } : undefined),
  fallbackDispatcher: new Agent(),
});
setGlobalDispatcher(agent);
setGlobalDispatcher(new RetryAgent(agent));
const state: string | undefined = agent.balancers.get('http://orders.shop')?.snapshot().state;
const hosts: readonly { readonly name: string; readonly service: boolean | undefined }[] = agent.snapshot().hosts;
void [state, hosts, agent.close(), agent[Symbol.asyncDispose]()];

const services = appInterceptor({ options: { picker: hash(), key: ({ path }) => path } });
setGlobalDispatcher(new Agent().compose(services, interceptors.redirect()));
void services.close();

// @ts-expect-error: a Service gets no requests for other hosts
createAppAgent({ options: { fallbackDispatcher: agent } });
// @ts-expect-error: an interceptor lets them pass
appInterceptor({ fallbackDispatcher: agent });
