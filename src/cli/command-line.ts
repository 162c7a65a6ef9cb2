import { parseArgs } from 'node:util';
import { type AllowAddresses, checkAllowAddresses, type UnsafeAddressClass } from '../endpoint/unsafe-address.js';
import { EvenkeelError } from '../errors.js';
import { checkServers } from '../resolver/dns-client.js';
import type { KubernetesSettings, TargetOptions } from '../resolver/target.js';
import { parseTarget, type Target } from '../resolver/target-grammar.js';
import { quoted } from '../runtime/check.js';
import type { KubeConfigFile } from './load-kube-config.js';

/** A parsed `evenkeel doctor` command line. */
export interface DoctorCommand {
  readonly name: 'doctor';
  /** The target as the user wrote it. */
  readonly target: string;
  readonly parsed: Target;
  /** The host, if the target is an https URL. */
  readonly tlsHost: string | undefined;
  readonly options: TargetOptions & { readonly allowAddresses: AllowAddresses };
  /** The kubeconfig that replaces the API server in `options`, which is loaded when the command runs. */
  readonly kubeConfig: KubeConfigFile | undefined;
  /** The time limit for all checks, in ms. */
  readonly timeoutMs: number;
  readonly connect: boolean;
  /** The URL of the admin page of the application's process, with a slash at the end. */
  readonly admin: URL | undefined;
  readonly watch: boolean;
  readonly json: boolean;
}

/** The command and its arguments. */
export type Command = DoctorCommand | { readonly name: 'help' | 'version' };

export const help = `Usage: evenkeel doctor <target> [options]

doctor says what evenkeel finds behind a Service, what it would use, and what to change. Run it where your application runs:
kubectl exec deploy/frontend -- npx --no evenkeel doctor orders.shop:http

Targets
  orders.shop:http              a Service and its port, by name or number: finds the best way, as your application does
  http://orders.shop:8080       the same, as a URL
  kubernetes:orders.shop:http   EndpointSlices only
  dns:orders.shop:8080          DNS only
  static:10.0.0.1:80            just these addresses

Options of doctor
  --watch                       keep running and print changes, until Ctrl-C
  --json                        print JSON, one object per line
  --timeout <seconds>           time limit for all checks (default 10)
  --admin <url>                 list the app's clients that evenkeel/register does not balance, from its admin page
  --no-connect                  do not open a connection to each endpoint
  --allow-address <class>       accept loopback, link-local, multicast, unspecified or metadata addresses as endpoints; repeatable
  --namespace <name>            namespace for a Service named without one (default this pod's)
  --cluster-domain <domain>     (default from /etc/resolv.conf, else cluster.local)
  --dns-server <ip[:port]>      query this name server; repeatable (default the machine's)
  --api-server <url>            query this API server (default that of the cluster this pod runs in)
  --token-file <path>           bearer token for that API server
  --ca-file <path>              certificate authority of that API server
  --kubeconfig <path>           take all three from a kubeconfig instead; needs @kubernetes/client-node
  --context <name>              a context in the kubeconfig (default its current one)
  --service-account <folder>    folder of the pod's service account (default /var/run/secrets/kubernetes.io/serviceaccount)
  --help (or -h), --version

Exit code: 0 all is well, 1 it works but could be better, 2 it does not work, 64 the command line is wrong,
70 evenkeel itself failed.
`;

/** Parses the arguments after the program's name. Throws EVENKEEL_OPTION. */
export function parseCommandLine(args: readonly string[]): Command {
  const { values, positionals } = parse(args);
  if (values.version) return { name: 'version' };
  if (values.help || positionals.length === 0 || positionals[0] === 'help') return { name: 'help' };
  const [name, target, ...more] = positionals;
  if (name !== 'doctor') {
    throw usageError(`there is no command ${quoted(name ?? '', 80)}; there is doctor`);
  }
  if (target === undefined) throw usageError('doctor needs a target, such as orders.shop:http');
  const address = targetOf(target);
  if (more.length > 0)
    throw usageError(`doctor takes one target, got also ${more.map((each) => quoted(each, 80)).join(' ')}`);
  const seconds = Number(values.timeout);
  if (!(seconds >= 1 && seconds <= 600))
    throw usageError(`--timeout must be 1 to 600 seconds, got ${quoted(values.timeout, 80)}`);
  const servers = checkServers(values['dns-server']);
  return {
    name: 'doctor',
    target: address,
    tlsHost: tlsHostOf(target),
    parsed: parseTarget(address),
    options: {
      allowAddresses: checkAllowAddresses(values['allow-address']?.map((entry) => entry as UnsafeAddressClass)),
      dns: {
        ...(servers && { servers }),
        ...(values['cluster-domain'] && { clusterDomain: values['cluster-domain'] }),
        ...(values.namespace && { namespace: values.namespace }),
      },
      kubernetes: kubernetesSettings(values),
    },
    kubeConfig: kubeConfigFile(values),
    timeoutMs: seconds * 1_000,
    connect: !values['no-connect'],
    admin: values.admin === undefined ? undefined : pageUrl(values.admin),
    watch: values.watch,
    json: values.json,
  };
}

/** Checks the address of an admin page, and adds a final slash. */
function pageUrl(url: string): URL {
  const page = url.endsWith('/') ? url : `${url}/`;
  const parsed = URL.canParse(page) ? new URL(page) : undefined;
  if (parsed === undefined || !/^https?:$/.test(parsed.protocol)) {
    throw usageError(`--admin needs a URL, such as http://127.0.0.1:9901/, got ${quoted(url, 80)}`);
  }
  return parsed;
}

type Values = ReturnType<typeof parse>['values'];

function kubernetesSettings(values: Values): KubernetesSettings {
  const server = values['api-server'];
  const [tokenFile, caFile] = [values['token-file'], values['ca-file']];
  if (server === undefined && (tokenFile ?? caFile) !== undefined) {
    throw usageError('--token-file and --ca-file need --api-server');
  }
  if (server !== undefined) {
    return { apiServer: server, credentials: { ...(tokenFile && { tokenFile }), ...(caFile && { caFile }) } };
  }
  const path = values['service-account'];
  return path === undefined || kubeConfigFile(values) !== undefined ? {} : { inCluster: { path } };
}

function kubeConfigFile(values: Values): KubeConfigFile | undefined {
  const { kubeconfig: path, context } = values;
  if ((path ?? context) === undefined || values['api-server'] !== undefined) return undefined;
  return { path, context };
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        watch: { type: 'boolean', default: false },
        json: { type: 'boolean', default: false },
        timeout: { type: 'string', default: '10' },
        admin: { type: 'string' },
        'no-connect': { type: 'boolean', default: false },
        'allow-address': { type: 'string', multiple: true },
        namespace: { type: 'string' },
        'cluster-domain': { type: 'string' },
        'dns-server': { type: 'string', multiple: true },
        'api-server': { type: 'string' },
        'token-file': { type: 'string' },
        'ca-file': { type: 'string' },
        kubeconfig: { type: 'string' },
        context: { type: 'string' },
        'service-account': { type: 'string' },
        help: { type: 'boolean', short: 'h', default: false },
        version: { type: 'boolean', default: false },
      },
    });
  } catch (error) {
    throw usageError((error as Error).message);
  }
}

function usageError(message: string): EvenkeelError {
  return new EvenkeelError('EVENKEEL_OPTION', message);
}

const defaultPorts: ReadonlyMap<string, number> = new Map([
  ['http:', 80],
  ['ws:', 80],
  ['https:', 443],
  ['wss:', 443],
]);

/** Converts a URL, as an application has it, to a target; any other text is returned unchanged. */
function targetOf(text: string): string {
  if (!URL.canParse(text)) return text;
  const { protocol, hostname, port } = new URL(text);
  const defaultPort = defaultPorts.get(protocol);
  return defaultPort === undefined || hostname === '' ? text : `${hostname}:${port || defaultPort}`;
}

/** The host of an https URL; undefined for any other text. */
function tlsHostOf(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined;
  const { protocol, hostname } = new URL(text);
  return protocol === 'https:' ? hostname : undefined;
}
