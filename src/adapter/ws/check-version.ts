import { checkPeer } from '../kit/index.js';

checkPeer('ws', 'evenkeel/ws', import.meta.url);
