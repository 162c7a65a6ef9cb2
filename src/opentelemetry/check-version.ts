import { checkPeer } from '../runtime/peer-version.js';

checkPeer('@opentelemetry/api', 'evenkeel/opentelemetry', import.meta.url);
