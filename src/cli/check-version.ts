import { checkPeer } from '../runtime/peer-version.js';

checkPeer('@kubernetes/client-node', 'a kubeconfig', import.meta.url);
