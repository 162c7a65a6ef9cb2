import { checkPeer } from '../kit/index.js';

checkPeer('mysql2', 'evenkeel/mysql2', import.meta.url);
