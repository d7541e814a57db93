package deltalog
