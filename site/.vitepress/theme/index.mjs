// With the fonts of the system: nothing to load, from here or from elsewhere.
import DefaultTheme from 'vitepress/theme-without-fonts';
import './style.css';

export default DefaultTheme;
