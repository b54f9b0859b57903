"""Parts of pages: values, columns, messages and news as they are shown."""
